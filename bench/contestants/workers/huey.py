"""huey on Redis. It has no way to enqueue many at once, and no acks: a job is gone when taken."""

from __future__ import annotations

import time
from typing import Any
import os
# Of another environment than the type checker's.
if os.environ.get("POOL")=="greenlet":
    from gevent import monkey; monkey.patch_all()
from huey import RedisHuey  # type: ignore[import-not-found]

from bench.contest import counted, main
from bench.load import PAYLOAD

WORKERS = int(os.environ.get("CON","4"))


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

    huey.create_consumer(workers=WORKERS, worker_type=os.environ.get("POOL","thread"), periodic=False).run()


if __name__ == "__main__":
    main(enqueue, work)
