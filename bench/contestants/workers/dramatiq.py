"""Dramatiq on Redis. It has no way to enqueue many at once."""

from __future__ import annotations

import threading
import time
from typing import Any, Final

# Of another environment than the type checker's.
import dramatiq  # type: ignore[import-not-found]
import redis
from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found]

from bench.contest import counted
from bench.load import PAYLOAD

THREADS: Final = 32
"""More run more: a thread waits for the next fetch after each few messages."""


def enqueue(url: str, jobs: int) -> float:
    broker = RedisBroker(url=url)
    noop = dramatiq.actor(lambda to, n: None, actor_name="noop", broker=broker)
    broker.client.ping()
    started_at = time.perf_counter()
    for _ in range(jobs):
        noop.send(**PAYLOAD)
    return time.perf_counter() - started_at


def work(url: str, jobs: int) -> None:
    client = redis.Redis.from_url(url)

    def left() -> int:
        kept: Any = client.hlen("dramatiq:default.msgs")
        return int(kept)

    broker, calls = RedisBroker(url=url), counted(jobs, left)

    def noop(to: str, n: int) -> None:
        calls.count()

    dramatiq.actor(noop, actor_name="noop", broker=broker)
    worker = dramatiq.Worker(broker, worker_threads=THREADS)
    worker.start()
    # For ever: the process ends with its last job.
    threading.Event().wait()
