"""What a claim or a look costs beside much that it does not ask for: queues, tenants, types, jobs.

A `claim(1)` is timed while one caller claims one job after the other, and gives each back outside
the time that counts. Where loading takes too long there are fewer jobs, and the row says so.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

import penstock
from bench import looks
from bench.figures import Row, Series, passed, series
from bench.filling import JOBS_PER_CALL
from bench.plan import Plan, isolated
from tests.servers.postgres import running_postgres
from tests.servers.redis import running_redis

QUEUES: Final = 20_000
TENANTS: Final = 1_000
JOBS: Final = 1_000_000
JOBS_QUICK: Final = 50_000
JOBS_ON_SERVERS: Final = 100_000
CLAIMS: Final = 200
STATS: Final = 20
RATIO_MAX: Final = 2.0
STATS_MS_MAX: Final = 5.0
LISTS: Final = 20
LISTED: Final = 20
LIST_MS_MAX: Final = 20.0
FEW: Final = 1_000

_numbers = count()

Costs = dict[str, float]
"""Milliseconds, by what was measured."""


def measure(plan: Plan) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=plan.folder) as place, ExitStack() as stack:
        postgres = stack.enter_context(running_postgres(Path(place)))
        redis = stack.enter_context(running_redis(Path(place)))
        backends: dict[str, tuple[Callable[[str], str], int]] = {
            "memory": (lambda name: f"memory://{name}", JOBS),
            "sqlite": (lambda name: f"sqlite://{place}/{name}.db", JOBS_ON_SERVERS),
            "postgresql": (lambda _: postgres.new_database(), JOBS_ON_SERVERS),
            "redis": (lambda name: f"{redis.url}?prefix={name}", JOBS_ON_SERVERS),
        }
        for backend, (url_of, jobs) in backends.items():
            scaled = plan.scaled(jobs, JOBS_QUICK)
            runs = {backend: partial(_run, url_of, scaled)}
            rows += _rows(backend, scaled, plan.interleaved(runs)[backend])
    return rows + looks.measure(plan)


def _run(url_of: Callable[[str], str], jobs: int) -> Costs:
    urls = [url_of(f"lanes{next(_numbers)}") for _ in range(3)]
    return isolated(costs_of, urls, jobs)


def costs_of(urls: list[str], jobs: int) -> Costs:
    return asyncio.run(_costs(urls, jobs))


async def _costs(urls: list[str], jobs: int) -> Costs:
    async with AsyncExitStack() as stack:
        few, queues, types = [await stack.enter_async_context(penstock.open(url)) for url in urls]
        await _fill(few, (penstock.NewJob("work") for _ in range(FEW)))
        await _fill(
            queues, (penstock.NewJob("work", queue=f"q{number % QUEUES}") for number in range(jobs))
        )
        await _fill(types, (penstock.NewJob("other") for _ in range(jobs)))
        await _fill(types, (penstock.NewJob("work") for _ in range(FEW)))
        callers = {"few": few, "queues": queues, "types": types}
        if urls[0].startswith("memory"):
            for number in range(TENANTS):
                # One after the other: each handle would follow the commits of all others.
                async with penstock.open(urls[0], tenant=f"tenant{number}") as tenant:
                    await tenant.enqueue("work")
            tenant = await stack.enter_async_context(penstock.open(urls[0], tenant="tenant0"))
            callers["tenants"] = tenant
        costs = await _claim_ms(callers)
        costs["stats"] = min([await _stats_ms(types) for _ in range(STATS)])
        costs["list"] = min([await _list_ms(types) for _ in range(LISTS)])
        costs["list_ended"] = min([await _list_ms(types, state="failed") for _ in range(LISTS)])
    return costs


async def _fill(queue: penstock.Queue, jobs: Iterator[penstock.NewJob]) -> None:
    batch: list[penstock.NewJob] = []
    for job in jobs:
        batch.append(job)
        if len(batch) == JOBS_PER_CALL:
            await queue.enqueue_many(batch)
            batch = []
    if batch:
        await queue.enqueue_many(batch)


async def _claim_ms(callers: dict[str, penstock.Queue]) -> Costs:
    """Medians, since a claim may meet a collection of garbage; in turn, so that all meet the same
    weather."""
    spent: dict[str, list[float]] = {name: [] for name in callers}
    for _ in range(CLAIMS):
        for name, queue in callers.items():
            started_at = time.perf_counter()
            jobs = await queue.claim(1, types=["work"] if name == "types" else None)
            spent[name].append(time.perf_counter() - started_at)
            await queue.release(jobs)
    return {name: sorted(each)[CLAIMS // 2] * 1_000 for name, each in spent.items()}


async def _stats_ms(queue: penstock.Queue) -> float:
    started_at = time.perf_counter()
    await queue.stats()
    return (time.perf_counter() - started_at) * 1_000


async def _list_ms(queue: penstock.Queue, state: str | None = None) -> float:
    started_at = time.perf_counter()
    found = [job async for job in queue.jobs(state=state, limit=LISTED)]
    assert len(found) == (LISTED if state is None else 0)
    return (time.perf_counter() - started_at) * 1_000


def _rows(backend: str, jobs: int, costs: list[Costs]) -> list[Row]:
    few = _of("few", costs)
    rows = [
        _beside(f"{backend}: claim(1), {QUEUES:,} queues", _of("queues", costs), few),
        _beside(f"{backend}: claim(1) by type, {jobs:,} of others ahead", _of("types", costs), few),
    ]
    if "tenants" in costs[0]:
        tenants = f"{backend}: claim(1), {TENANTS:,} tenants"
        rows.append(_beside(tenants, _of("tenants", costs), few))
    for what, name, bar in (
        ("stats", "stats", STATS_MS_MAX),
        (f"list, the first {LISTED}", "list", LIST_MS_MAX),
        ("list, none that failed", "list_ended", LIST_MS_MAX),
    ):
        figure = _of(name, costs)
        verdict = passed(figure.best <= bar)
        named = f"{backend}: {what}, {jobs:,} pending"
        rows.append(Row(named, figure, bar=f"≤ {bar:g} ms", verdict=verdict))
    return rows


def _beside(requirement: str, figure: Series, few: Series) -> Row:
    ratio = figure.best / few.best
    bar = f"≤ {RATIO_MAX:g}×"
    return Row(
        requirement, figure, f"{FEW:,} in one queue", few, ratio, bar, passed(ratio <= RATIO_MAX)
    )


def _of(name: str, costs: list[Costs]) -> Series:
    return series((each[name] for each in costs), "ms")
