"""Layout `tasks`: how long a claim takes, what a job costs, and whether workers add up."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final

import penstock
from bench.distance import DistantStore
from bench.figures import Row, passed, series
from bench.load import JOB_TYPE, PAYLOAD
from bench.plan import Plan, isolated
from penstock import NewJob
from penstock.stores.layers.counting import Counting
from penstock.stores.memory import MemoryStore
from tests.servers.seaweed import ACCESS_KEY, SECRET_KEY, running_seaweed
from tests.servers.shared import ServerAbsent

CLAIMS: Final = 500
CLAIM_P99_SECONDS_MAX: Final = 0.05
COUNTED_JOBS: Final = 500
REQUESTS_PER_JOB_MAX: Final = 10
ROUND_TRIP_SECONDS: Final = 0.05
WORKERS: Final = 8
JOBS_PER_WORKER: Final = 40
SPEED_UP_MIN: Final = 6.0


def measure(plan: Plan) -> list[Row]:
    return [*_claims(plan), _requests(plan), _speed_up(plan)]


def claim_seconds(url: str, claims: int) -> list[float]:
    """How long each claim of one job takes, with a backlog of as many."""
    return asyncio.run(_claim_all(url, claims))


def requests_per_job(jobs: int) -> float:
    """From enqueue to ack, one at a time, without the listings."""
    return asyncio.run(_count(jobs))


def drained_per_second(workers: int) -> float:
    """Jobs that so many workers claim and ack one by one, each with its own way to the store."""
    return asyncio.run(_drain(workers))


def _claims(plan: Plan) -> list[Row]:
    bar = f"< {CLAIM_P99_SECONDS_MAX * 1000:.0f} ms"
    try:
        with tempfile.TemporaryDirectory() as folder, running_seaweed(Path(folder)) as server:
            os.environ.update(AWS_ACCESS_KEY_ID=ACCESS_KEY, AWS_SECRET_ACCESS_KEY=SECRET_KEY)
            taken: list[list[float]] = []
            for _ in range(plan.rounds):
                url = (
                    f"s3://{server.new_bucket()}/queue?layout=tasks&region=us-east-1"
                    f"&allow_no_versioning=on&endpoint={server.endpoint}"
                )
                taken.append(isolated(claim_seconds, url, plan.scaled(CLAIMS, CLAIMS // 2)))
    except ServerAbsent as absent:
        return [Row("tasks, SeaweedFS: p99 of a claim", str(absent), verdict="not measured")]
    p50 = series((statistics.median(each) * 1000 for each in taken), "ms")
    p99 = series((statistics.quantiles(each, n=100)[98] * 1000 for each in taken), "ms")
    is_good = p99.best < CLAIM_P99_SECONDS_MAX * 1000
    return [
        Row("tasks, SeaweedFS: p50 of a claim", p50),
        Row("tasks, SeaweedFS: p99 of a claim", p99, bar=bar, verdict=passed(is_good)),
    ]


def _requests(plan: Plan) -> Row:
    figure = series([isolated(requests_per_job, COUNTED_JOBS)], "requests")
    is_good = figure.best <= REQUESTS_PER_JOB_MAX
    requirement = "tasks: requests per job, listings aside"
    return Row(requirement, figure, bar=f"≤ {REQUESTS_PER_JOB_MAX}", verdict=passed(is_good))


def _speed_up(plan: Plan) -> Row:
    runs = plan.interleaved(
        {f"{count} workers": partial(isolated, drained_per_second, count) for count in (1, WORKERS)}
    )
    alone, together = (series(rates, "/s") for rates in runs.values())
    ratio = together.best / alone.best
    return Row(
        f"tasks, 50 ms store: {WORKERS} workers",
        together,
        "one worker",
        alone,
        ratio,
        f"≥ {SPEED_UP_MIN:g}×",
        passed(ratio >= SPEED_UP_MIN),
    )


async def _claim_all(url: str, claims: int) -> list[float]:
    taken: list[float] = []
    async with penstock.open(url) as queue:
        await queue.enqueue_many([NewJob(JOB_TYPE, PAYLOAD) for _ in range(claims)])
        for _ in range(claims):
            started_at = time.perf_counter()
            [job] = await queue.claim()
            taken.append(time.perf_counter() - started_at)
            await queue.ack(job)
    return taken


async def _count(jobs: int) -> float:
    store = Counting(MemoryStore())
    async with penstock.open(store=store, layout="tasks") as queue:
        before = store.requests
        for _ in range(jobs):
            await queue.enqueue(JOB_TYPE, PAYLOAD)
        for _ in range(jobs):
            [job] = await queue.claim()
            await queue.ack(job)
    used = store.requests.since(before)
    return (used.total - used.lists) / jobs


async def _drain(workers: int) -> float:
    store = MemoryStore()
    jobs = workers * JOBS_PER_WORKER
    async with penstock.open(store=store, layout="tasks") as queue:
        await queue.enqueue_many([NewJob(JOB_TYPE, PAYLOAD) for _ in range(jobs)])

    async def work(queue: penstock.Queue) -> int:
        done = 0
        while claimed := await queue.claim():
            await queue.ack(claimed)
            done += len(claimed)
        return done

    async with AsyncExitStack() as stack:
        queues = [
            await stack.enter_async_context(
                penstock.open(store=DistantStore(store, ROUND_TRIP_SECONDS), layout="tasks")
            )
            for _ in range(workers)
        ]
        started_at = time.perf_counter()
        done = await asyncio.gather(*map(work, queues))
        seconds = time.perf_counter() - started_at
    if sum(done) != jobs:
        raise RuntimeError(f"{sum(done):,} of {jobs:,} jobs were done")
    return jobs / seconds
