"""Records in Redis: processes that share a queue, depth, and rivals' workers on the same server.

Workers are measured as `bench/workers.py` does: one client process enqueues all jobs, then one
worker process runs them, which do nothing. The server has its own defaults, for everybody.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import penstock
from bench import workers
from bench.figures import Row, Series, passed, series
from bench.filling import fill
from bench.load import Timing
from bench.plan import Plan, isolated
from bench.records import JOBS, JOBS_QUICK, PROCESSES, processes_rows, together
from bench.rivals import NoRival, installed, platformatic
from tests.servers.redis import Redis, running_redis

TIMES_HUEY: Final = 6.0
TIMES_PLATFORMATIC: Final = 1.8
DEPTHS: Final = (1_000, 1_000_000)
DEPTHS_QUICK: Final = (1_000, 100_000)
SHARE_MIN: Final = 0.7
CLAIM: Final = 100
CLAIMS: Final = 10
HUEY: Final = next(rival for rival in workers.CONTENDERS if rival.name == "huey")
PLATFORMATIC: Final = "@platformatic/job-queue"
PENSTOCK: Final = "penstock"

Outcome = float | Timing | NoRival


def measure(plan: Plan) -> list[Row]:
    jobs = plan.scaled(JOBS, JOBS_QUICK)
    depths = plan.scaled(max(DEPTHS), max(DEPTHS_QUICK))
    with tempfile.TemporaryDirectory(dir=plan.folder) as place, running_redis(Path(place)) as redis:
        runs: dict[str, Callable[[], Outcome]] = {
            _name(count): partial(_shared, redis, jobs, count) for count in PROCESSES
        }
        runs[PENSTOCK] = partial(_worker, redis, jobs)
        runs[HUEY.name] = partial(_huey, redis, jobs // 2)
        runs[PLATFORMATIC] = partial(_platformatic, redis, jobs)
        outcomes = plan.interleaved(runs)
        plan.say(f"{depths:,} pending")
        rates = isolated(claim_rates, _empty(redis), [min(DEPTHS), depths])
    return [*_rows(outcomes), _flatness(rates)]


def claim_rates(url: str, depths: list[int]) -> dict[int, float]:
    """Claims per second, by how many jobs are pending."""

    async def work() -> dict[int, float]:
        async with penstock.open(url) as queue:
            return {depth: await _claim_rate(queue, depth) for depth in depths}

    return asyncio.run(work())


async def _claim_rate(queue: penstock.Queue, depth: int) -> float:
    await fill(queue, depth - sum(each.pending for each in (await queue.stats()).queues))
    best = 0.0
    for _ in range(3):
        started_at = time.perf_counter()
        for _ in range(CLAIMS):
            claimed = await queue.claim(CLAIM)
            await queue.release(claimed)
        best = max(best, CLAIMS * CLAIM / (time.perf_counter() - started_at))
    return best


def _shared(redis: Redis, jobs: int, processes: int) -> Outcome:
    return together(_empty(redis), jobs, processes)


def _worker(redis: Redis, jobs: int) -> Outcome:
    return workers.penstock_timing_at(_empty(redis), jobs, workers.CONCURRENCY)


def _huey(redis: Redis, jobs: int) -> Outcome:
    try:
        return workers.tried(installed(), HUEY, jobs, partial(_empty, redis))
    except NoRival as absent:
        return absent


def _platformatic(redis: Redis, jobs: int) -> Outcome:
    url = _empty(redis)
    try:
        command = platformatic()
        enqueued, drained = (
            workers.said_seconds([*command, what, url, str(jobs)], {})
            for what in ("enqueue", "work")
        )
    except NoRival as absent:
        return absent
    return Timing(jobs, enqueued, drained)


def _empty(redis: Redis) -> str:
    redis.empty()
    return redis.url


def _rows(outcomes: dict[str, list[Outcome]]) -> list[Row]:
    figures = {name: _figure(runs) for name, runs in outcomes.items()}
    rows = processes_rows(
        {count: f"{_name(count)}: end to end" for count in PROCESSES},
        {count: figures[_name(count)] for count in PROCESSES},
    )
    bars = {HUEY.name: TIMES_HUEY, PLATFORMATIC: TIMES_PLATFORMATIC}
    return rows + [
        _beside(figures[PENSTOCK], name, figures[name], times) for name, times in bars.items()
    ]


def _beside(ours: Series, name: str, theirs: Series, times: float) -> Row:
    requirement, bar = "redis, one worker: end to end", f"≥ {times:g}×"
    if not theirs.values:
        return Row(requirement, ours, name, "not to be had", None, bar, "not measured")
    ratio = ours.best / theirs.best
    return Row(requirement, ours, name, theirs, ratio, bar, passed(ratio >= times))


def _flatness(rates: dict[int, float]) -> Row:
    share = series([rates[max(rates)] / rates[min(rates)]], "share")
    return Row(
        f"redis: claims at {max(rates):,} pending over those at {min(rates):,}",
        share,
        bar=f"≥ {SHARE_MIN}",
        verdict=passed(share.best >= SHARE_MIN),
    )


def _figure(runs: list[Outcome]) -> Series:
    rates = [run.jobs_per_second if isinstance(run, Timing) else run for run in runs
             if not isinstance(run, NoRival)]  # fmt: skip
    return series(rates, "/s")


def _name(processes: int) -> str:
    return f"redis, {processes} process{'es' if processes > 1 else ''}"
