"""Files with fsync, 256 callers: against jqueue and against the prototype."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from bench.contestants import prototype, queue
from bench.figures import Row, Series, passed, reached, series
from bench.load import Shape, Timing
from bench.loops import ASYNCIO, loops
from bench.plan import Plan, isolated

TIMES_JQUEUE: Final = {5_000: 13.0, 20_000: 55.0}
"""How much faster than jqueue penstock must be with this many jobs."""
TIMES_PROTOTYPE: Final = 2.5
"""How much slower than the prototype it may be."""
ENQUEUES_GOAL: Final = 50_000
JQUEUE_SECONDS_MAX: Final = 180.0
JQUEUE_QUICK_SECONDS_MAX: Final = 60.0


def measure(plan: Plan) -> list[Row]:
    rows = []
    for jobs, times in TIMES_JQUEUE.items():
        timings = plan.interleaved(_runs(plan, jobs))
        rows.append(_against_jqueue(plan, jobs, times, timings))
    # The larger number of jobs, which is also the prototype's own.
    rows += [_against_prototype(timings, loop) for loop in loops()]
    rows += [_enqueues(timings, loop) for loop in loops()]
    return [*rows, _cpu(timings)]


def _runs(plan: Plan, jobs: int) -> dict[str, Callable[[], Timing]]:
    shape = Shape(jobs)
    runs: dict[str, Callable[[], Timing]] = {}
    for loop in loops():
        runs[f"penstock, {loop}"] = partial(isolated, queue.on_files, shape, plan.folder, loop)
        if plan.prototype:
            runs[f"prototype, {loop}"] = partial(
                isolated, prototype.on_files, plan.prototype, shape, plan.folder, loop
            )
    if plan.jqueue:
        limit = JQUEUE_QUICK_SECONDS_MAX if plan.is_quick else JQUEUE_SECONDS_MAX
        runs["jqueue"] = partial(plan.jqueue.run, jobs, plan.folder, limit)
    return runs


def _against_jqueue(plan: Plan, jobs: int, times: float, timings: dict[str, list[Timing]]) -> Row:
    requirement = f"files, {jobs:,} jobs: end to end"
    ours, bar = _end_to_end(timings[f"penstock, {ASYNCIO}"]), f"≥ {times:g}× jqueue"
    if plan.jqueue is None:
        return Row(requirement, ours, "jqueue", "not to be had", None, bar, "not measured")
    theirs = _end_to_end(timings["jqueue"])
    ratio = ours.best / theirs.best
    return Row(requirement, ours, plan.jqueue.name, theirs, ratio, bar, passed(ratio >= times))


def _against_prototype(timings: dict[str, list[Timing]], loop: str) -> Row:
    requirement = f"files, {max(TIMES_JQUEUE):,} jobs, {loop}: end to end"
    bar = f"prototype ≤ {TIMES_PROTOTYPE:g}×"
    ours = _end_to_end(timings[f"penstock, {loop}"])
    if f"prototype, {loop}" not in timings:
        return Row(requirement, ours, "prototype", "not there", None, bar, "not measured")
    theirs = _end_to_end(timings[f"prototype, {loop}"])
    ratio = theirs.best / ours.best
    if loop != ASYNCIO:
        return Row(requirement, ours, "prototype", theirs, ratio)
    verdict = passed(ratio <= TIMES_PROTOTYPE)
    return Row(requirement, ours, "prototype", theirs, ratio, bar, verdict)


def _enqueues(timings: dict[str, list[Timing]], loop: str) -> Row:
    rates = {
        name: series((timing.enqueues_per_second for timing in runs), "/s")
        for name, runs in timings.items()
    }
    ours, theirs = rates[f"penstock, {loop}"], rates.get(f"prototype, {loop}")
    return Row(
        f"files, {max(TIMES_JQUEUE):,} jobs, {loop}: enqueues",
        ours,
        "prototype",
        theirs or "not there",
        theirs.best / ours.best if theirs else None,
        f"goal {ENQUEUES_GOAL:,}/s",
        reached(ours.best >= ENQUEUES_GOAL),
    )


def _cpu(timings: dict[str, list[Timing]]) -> Row:
    costs = {
        name: series((timing.cpu_seconds / timing.jobs * 1e6 for timing in runs), "µs")
        for name, runs in timings.items()
    }
    ours, theirs = costs[f"penstock, {ASYNCIO}"], costs.get(f"prototype, {ASYNCIO}")
    requirement = f"files, {max(TIMES_JQUEUE):,} jobs, {ASYNCIO}: processor time per job"
    if theirs is None:
        return Row(requirement, ours)
    return Row(requirement, ours, "prototype", theirs, ours.best / theirs.best)


def _end_to_end(timings: list[Timing]) -> Series:
    is_bound = not all(timing.is_complete for timing in timings)
    return series((timing.jobs_per_second for timing in timings), "/s", "<" if is_bound else "")
