"""rq, which enqueues many with one pipeline and, in its simplest worker, forks nothing."""

from __future__ import annotations

import time

import redis

# Of another environment than the type checker's.
from rq import Queue, SimpleWorker  # type: ignore[import-not-found]
from rq.registry import StartedJobRegistry  # type: ignore[import-not-found]

from bench import contest
from bench.load import PAYLOAD

BATCH = 1_000
drain: contest.Drain


def noop(to: str, n: int) -> None:
    """Found by its name, which is in the job."""
    calls.count()


def enqueue(url: str, jobs: int) -> float:
    queue = Queue(connection=redis.Redis.from_url(url))
    path = "bench.contestants.workers.rq.noop"
    started_at = time.perf_counter()
    for start in range(0, jobs, BATCH):
        batch = range(start, min(start + BATCH, jobs))
        queue.enqueue_many([Queue.prepare_data(path, kwargs=PAYLOAD, result_ttl=0) for _ in batch])
    return time.perf_counter() - started_at


def work(url: str, jobs: int) -> None:
    global drain
    from bench.contestants.workers import rq as here
    client = redis.Redis.from_url(url)
    queue = Queue(connection=client)
    running = StartedJobRegistry(queue=queue)
    here.drain = contest.counted(jobs, lambda: len(queue) + running.get_job_count(cleanup=False))
    SimpleWorker([queue], connection=client).work(logging_level="ERROR")


if __name__ == "__main__":
    contest.main(enqueue, work)
