"""rq, which enqueues many with one pipeline and, in its simplest worker, forks nothing."""

from __future__ import annotations

import time

import redis

# Of another environment than the type checker's.
from rq import Queue, SimpleWorker  # type: ignore[import-not-found]
from rq.registry import StartedJobRegistry  # type: ignore[import-not-found]

from bench.contest import BATCH, Calls, counted
from bench.load import PAYLOAD

calls: Calls


def noop(to: str, n: int) -> None:
    calls.count()


def enqueue(url: str, jobs: int) -> float:
    queue = Queue(connection=redis.Redis.from_url(url))
    started_at = time.perf_counter()
    for start in range(0, jobs, BATCH):
        batch = range(start, min(start + BATCH, jobs))
        queue.enqueue_many([Queue.prepare_data(noop, kwargs=PAYLOAD, result_ttl=0) for _ in batch])
    return time.perf_counter() - started_at


def work(url: str, jobs: int) -> None:
    global calls  # noqa: PLW0603  # the handler is found by its name alone
    client = redis.Redis.from_url(url)
    queue = Queue(connection=client)
    running = StartedJobRegistry(queue=queue)
    calls = counted(jobs, lambda: len(queue) + running.get_job_count(cleanup=False))
    SimpleWorker([queue], connection=client).work(logging_level="ERROR")
