"""Celery on Redis. It has no way to enqueue many at once.

With the pool `solo`, which ran twice as many no-ops as `threads`; no results, no events, no gossip.
"""

from __future__ import annotations

import time
from typing import Any, Final

# Of another environment than the type checker's.
import redis
from celery import Celery  # type: ignore[import-not-found]

from bench.contest import counted
from bench.load import PAYLOAD

PREFETCH: Final = 128


def _app(url: str) -> Any:
    app = Celery(broker=url)
    app.conf.update(
        task_ignore_result=True,
        worker_prefetch_multiplier=PREFETCH,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_send_task_events=False,
    )
    return app


def enqueue(url: str, jobs: int) -> float:
    app = _app(url)

    @app.task(name="noop")  # type: ignore[untyped-decorator]
    def noop(to: str, n: int) -> None: ...

    with app.producer_or_acquire() as producer:
        producer.connection.ensure_connection()
        started_at = time.perf_counter()
        for _ in range(jobs):
            noop.apply_async(kwargs=PAYLOAD, producer=producer)
        return time.perf_counter() - started_at


def work(url: str, jobs: int) -> None:
    client = redis.Redis.from_url(url)

    def left() -> int:
        waiting: Any = client.llen("celery")
        unacked: Any = client.hlen("unacked")
        return int(waiting) + int(unacked)

    app, calls = _app(url), counted(jobs, left)

    @app.task(name="noop")  # type: ignore[untyped-decorator]
    def noop(to: str, n: int) -> None:
        calls.count()

    app.Worker(
        pool="solo", without_gossip=True, without_mingle=True, without_heartbeat=True
    ).start()
