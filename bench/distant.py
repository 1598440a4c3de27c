"""A 50 ms store and 2,000 callers: throughput, latency in round trips, requests per job."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from bench.contestants import prototype, queue
from bench.figures import Row, Series, passed, series
from bench.load import Counted, Shape
from bench.loops import ASYNCIO, loops
from bench.plan import Plan, isolated

SHAPE: Final = Shape(20_000, callers=2_000, drainers=16, claim=256)
ROUND_TRIP_SECONDS: Final = 0.05
JOBS_PER_SECOND_MIN: Final = 8_000
ROUND_TRIPS_MAX: Final = 2.2
REQUESTS_PER_JOB_MAX: Final = 0.01
TIMES_PROTOTYPE: Final = 2.5


def measure(plan: Plan) -> list[Row]:
    runs = plan.interleaved(_runs(plan))
    ours, theirs = runs[f"penstock, {ASYNCIO}"], runs.get(f"prototype, {ASYNCIO}", [])
    return [
        _throughput(ours),
        *(_against_prototype(loop, runs) for loop in loops()),
        _round_trips(ours, theirs),
        _requests(ours, theirs),
    ]


def _runs(plan: Plan) -> dict[str, Callable[[], Counted]]:
    runs: dict[str, Callable[[], Counted]] = {}
    for loop in loops():
        load = (SHAPE, ROUND_TRIP_SECONDS, loop)
        runs[f"penstock, {loop}"] = partial(isolated, queue.on_a_distant_store, *load)
        if plan.prototype:
            runs[f"prototype, {loop}"] = partial(
                isolated, prototype.on_a_distant_store, plan.prototype, *load
            )
    return runs


def _throughput(ours: list[Counted]) -> Row:
    rate = _rate(ours)
    return Row(
        "50 ms store, 2,000 callers: end to end",
        rate,
        bar=f"≥ {JOBS_PER_SECOND_MIN:,}/s",
        verdict=passed(rate.best >= JOBS_PER_SECOND_MIN),
    )


def _against_prototype(loop: str, runs: dict[str, list[Counted]]) -> Row:
    requirement = f"50 ms store, {loop}: end to end"
    rate, bar = _rate(runs[f"penstock, {loop}"]), f"prototype ≤ {TIMES_PROTOTYPE:g}×"
    if f"prototype, {loop}" not in runs:
        return Row(requirement, rate, "prototype", "not there", None, bar, "not measured")
    limit = _rate(runs[f"prototype, {loop}"])
    ratio = limit.best / rate.best
    if loop != ASYNCIO:
        return Row(requirement, rate, "prototype", limit, ratio)
    return Row(requirement, rate, "prototype", limit, ratio, bar, passed(ratio <= TIMES_PROTOTYPE))


def _round_trips(ours: list[Counted], theirs: list[Counted]) -> Row:
    taken, limit = _p99(ours), _p99(theirs) if theirs else None
    return Row(
        "50 ms store: p99 of an enqueue in round trips",
        taken,
        "prototype",
        limit or "not there",
        taken.best / limit.best if limit else None,
        f"≤ {ROUND_TRIPS_MAX}",
        passed(taken.best <= ROUND_TRIPS_MAX),
    )


def _requests(ours: list[Counted], theirs: list[Counted]) -> Row:
    used, least = _requests_per_job(ours), _requests_per_job(theirs) if theirs else None
    return Row(
        "50 ms store: requests per job, all in all",
        used,
        "prototype",
        least or "not there",
        used.best / least.best if least else None,
        f"≤ {REQUESTS_PER_JOB_MAX}",
        passed(used.best <= REQUESTS_PER_JOB_MAX),
    )


def _rate(runs: list[Counted]) -> Series:
    return series((run.timing.jobs_per_second for run in runs), "/s")


def _p99(runs: list[Counted]) -> Series:
    return series((run.timing.p99_seconds / ROUND_TRIP_SECONDS for run in runs), "round trips")


def _requests_per_job(runs: list[Counted]) -> Series:
    return series((run.requests / run.timing.jobs for run in runs), "requests")
