"""PostgreSQL: one worker beside pgqueuer's on the same server, several processes, and depth."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final

import penstock
from bench.figures import Row, Series, passed, series
from bench.load import JOB_TYPE, PAYLOAD, Timing
from bench.plan import Plan, isolated
from bench.records import processes_rows, together
from bench.rivals import NoRival, installed
from bench.workers import CONCURRENCY, CONTENDERS, Contender, penstock_timing_at, tried
from penstock import NewJob
from tests.servers.postgres import Postgres, running_postgres

JOBS: Final = 20_000
JOBS_QUICK: Final = 6_000
PROCESSES: Final = (1, 2)
TIMES_PGQUEUER: Final = 1.5
TIMES_PGQUEUER_AT_BEST: Final = 1.0
"""In batches of the size that it is fastest with."""
DEPTHS: Final = (1_000, 1_000_000)
DEPTHS_QUICK: Final = (1_000, 100_000)
FLATNESS_MIN: Final = 0.7
CLAIM: Final = 64
CLAIMS: Final = 12
"""At a time; what they took is put back before the next round."""
ROUNDS_OF_CLAIMS: Final = 10
FILL: Final = 1_000
RIVALS: Final = [one for one in CONTENDERS if one.module == "pgqueuer"]
WORKER: Final = "one worker"

Outcome = float | Timing | NoRival


def measure(plan: Plan) -> list[Row]:
    with (
        tempfile.TemporaryDirectory(dir=plan.folder) as folder,
        running_postgres(Path(folder)) as server,
    ):
        outcomes = plan.interleaved(_runs(plan, server))
        plan.say("fills a deep queue")
        depths = DEPTHS_QUICK if plan.is_quick else DEPTHS
        rates = isolated(claim_rates, server.new_database(), depths)
    return [*_beside_pgqueuer(outcomes), *_of_processes(outcomes), *_of_depths(rates)]


def claim_rates(url: str, depths: tuple[int, ...]) -> dict[int, list[float]]:
    """Jobs claimed per second, by how many are pending; several times each, in turn."""
    return asyncio.run(_claim_rates(url, depths))


async def _claim_rates(url: str, depths: tuple[int, ...]) -> dict[int, list[float]]:
    rates: dict[int, list[float]] = {depth: [] for depth in depths}
    async with AsyncExitStack() as stack:
        queues: dict[int, penstock.Queue] = {}
        for depth in depths:
            queue = penstock.open(url, schema=f"depth_{depth}")
            queues[depth] = await stack.enter_async_context(queue)
            for _ in range(0, depth, FILL):
                await queue.enqueue_many([NewJob(JOB_TYPE, PAYLOAD)] * FILL)
        for _ in range(ROUNDS_OF_CLAIMS):
            for depth, queue in queues.items():
                rates[depth].append(await _claimed(queue))
    return rates


async def _claimed(queue: penstock.Queue) -> float:
    started_at = time.perf_counter()
    jobs = [job for _ in range(CLAIMS) for job in await queue.claim(CLAIM)]
    seconds = time.perf_counter() - started_at
    await queue.release(jobs)
    return len(jobs) / seconds


def _runs(plan: Plan, server: Postgres) -> dict[str, Callable[[], Outcome]]:
    jobs = plan.scaled(JOBS, JOBS_QUICK)
    runs: dict[str, Callable[[], Outcome]] = {
        WORKER: lambda: penstock_timing_at(server.new_database(), jobs, CONCURRENCY)
    }
    for processes in PROCESSES:
        runs[_name(processes)] = partial(_together, server, jobs, processes)
    try:
        python = installed()
    except NoRival as absent:
        plan.say(f"goes without pgqueuer: {absent}")
        return runs
    for rival in RIVALS:
        runs[rival.name] = partial(tried, python, rival, jobs, server.new_database)
    return runs


def _together(server: Postgres, jobs: int, processes: int) -> float:
    return together(server.new_database(), jobs, processes)


def _beside_pgqueuer(outcomes: Mapping[str, list[Outcome]]) -> list[Row]:
    return [_beside(rival, _end_to_end(outcomes[WORKER]), outcomes) for rival in RIVALS]


def _beside(rival: Contender, ours: Series, outcomes: Mapping[str, list[Outcome]]) -> Row:
    requirement = "postgres, one worker: end to end"
    times = TIMES_PGQUEUER if rival.counts else TIMES_PGQUEUER_AT_BEST
    bar, theirs = f"≥ {times:g}×", _end_to_end(outcomes.get(rival.name, []))
    if not theirs.values:
        return Row(requirement, ours, rival.name, "not to be had", None, bar, "not measured")
    ratio = ours.best / theirs.best
    return Row(requirement, ours, rival.name, theirs, ratio, bar, passed(ratio >= times))


def _of_processes(outcomes: Mapping[str, list[Outcome]]) -> list[Row]:
    return processes_rows(
        {count: f"{_name(count)}: end to end, one job per call" for count in PROCESSES},
        {
            count: series([one for one in outcomes[_name(count)] if isinstance(one, float)], "/s")
            for count in PROCESSES
        },
    )


def _of_depths(rates: dict[int, list[float]]) -> list[Row]:
    shallow, deep = (series(rates[depth], "/s") for depth in rates)
    names = [f"postgres, {depth:,} pending: claimed" for depth in rates]
    share = deep.median / shallow.median
    is_good = passed(share >= FLATNESS_MIN)
    flat = Row("the same, deep beside shallow, medians", series([share], "share"),
               bar=f"≥ {FLATNESS_MIN:g}", verdict=is_good)  # fmt: skip
    return [Row(names[0], shallow), Row(names[1], deep), flat]


def _end_to_end(outcomes: list[Outcome]) -> Series:
    return series([one.jobs_per_second for one in outcomes if isinstance(one, Timing)], "/s")


def _name(processes: int) -> str:
    return f"postgres, {processes} process{'es' if processes > 1 else ''}"
