"""Dramatiq on Redis. It has no way to enqueue many at once."""

from __future__ import annotations

import time
from typing import Any
import os
import redis

# Of another environment than the type checker's.
import dramatiq  # type: ignore[import-not-found]
from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found]

from bench.contest import counted, main
from bench.load import PAYLOAD

THREADS = int(os.environ.get("CON","8"))


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
    worker.join()
    time.sleep(60)


if __name__ == "__main__":
    main(enqueue, work)
