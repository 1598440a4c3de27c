"""huey on Redis. It has no way to enqueue many at once, and no acks: a job is gone when taken."""

from __future__ import annotations

import time
from typing import Any, Final

# Of another environment than the type checker's.
from huey import RedisHuey  # type: ignore[import-not-found]

from bench.contest import counted
from bench.load import PAYLOAD

WORKERS: Final = 4
"""Threads; greenlets and a single thread were slower."""


def _huey(url: str) -> Any:
    return RedisHuey(url=url, results=False)


def enqueue(url: str, jobs: int) -> float:
    huey = _huey(url)
    noop = huey.task(name="noop")(lambda to, n: None)
    huey.pending_count()
    started_at = time.perf_counter()
    for _ in range(jobs):
        noop(**PAYLOAD)
    return time.perf_counter() - started_at


def work(url: str, jobs: int) -> None:
    huey = _huey(url)
    calls = counted(jobs, huey.pending_count)

    @huey.task(name="noop")  # type: ignore[untyped-decorator]
    def noop(to: str, n: int) -> None:
        calls.count()

    huey.create_consumer(workers=WORKERS, worker_type="thread", periodic=False).run()
