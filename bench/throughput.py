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


Timings = dict[str, list[Timing]]


def measure(plan: Plan) -> list[Row]:
    few, many = sorted(TIMES_JQUEUE)
    timings = plan.interleaved({**_runs(plan, few), **_runs(plan, many)})
    return [
        _against_jqueue(plan, few, timings),
        _against_jqueue(plan, many, timings),
        *(_against_prototype(many, loop, timings) for loop in loops()),
        *(_enqueues(many, loop, timings) for loop in loops()),
        _cpu(many, timings),
    ]


def _runs(plan: Plan, jobs: int) -> dict[str, Callable[[], Timing]]:
    shape = Shape(jobs)
    runs: dict[str, Callable[[], Timing]] = {}
    for loop in loops():
        runs[_name("penstock", jobs, loop)] = partial(
            isolated, queue.on_files, shape, plan.folder, loop
        )
        if plan.prototype:
            runs[_name("prototype", jobs, loop)] = partial(
                isolated, prototype.on_files, plan.prototype, shape, plan.folder, loop
            )
    if plan.jqueue:
        runs[_name("jqueue", jobs, ASYNCIO)] = partial(
            plan.jqueue.run, jobs, plan.folder, JQUEUE_SECONDS_MAX
        )
    return runs


def _name(contestant: str, jobs: int, loop: str) -> str:
    return f"{contestant}, {jobs:,} jobs, {loop}"


def _against_jqueue(plan: Plan, jobs: int, timings: Timings) -> Row:
    requirement, times = f"files, {jobs:,} jobs: end to end", TIMES_JQUEUE[jobs]
    ours, bar = _end_to_end(timings[_name("penstock", jobs, ASYNCIO)]), f"≥ {times:g}× jqueue"
    if plan.jqueue is None:
        return Row(requirement, ours, "jqueue", "not to be had", None, bar, "not measured")
    theirs = _end_to_end(timings[_name("jqueue", jobs, ASYNCIO)])
    ratio = ours.best / theirs.best
    # If jqueue was cut off, the true ratio is larger: enough is enough, too little says nothing.
    is_unknown = theirs.sign and ratio < times
    verdict = "not measured" if is_unknown else passed(ratio >= times)
    return Row(requirement, ours, plan.jqueue.name, theirs, ratio, bar, verdict)


def _against_prototype(jobs: int, loop: str, timings: Timings) -> Row:
    requirement = f"files, {jobs:,} jobs, {loop}: end to end"
    bar = f"prototype ≤ {TIMES_PROTOTYPE:g}×"
    ours = _end_to_end(timings[_name("penstock", jobs, loop)])
    if _name("prototype", jobs, loop) not in timings:
        return Row(requirement, ours, "prototype", "not there", None, bar, "not measured")
    theirs = _end_to_end(timings[_name("prototype", jobs, loop)])
    ratio = theirs.best / ours.best
    if loop != ASYNCIO:
        return Row(requirement, ours, "prototype", theirs, ratio)
    verdict = passed(ratio <= TIMES_PROTOTYPE)
    return Row(requirement, ours, "prototype", theirs, ratio, bar, verdict)


def _enqueues(jobs: int, loop: str, timings: Timings) -> Row:
    rates = {
        name: series((timing.enqueues_per_second for timing in runs), "/s")
        for name, runs in timings.items()
    }
    ours = rates[_name("penstock", jobs, loop)]
    theirs = rates.get(_name("prototype", jobs, loop))
    return Row(
        f"files, {jobs:,} jobs, {loop}: enqueues",
        ours,
        "prototype",
        theirs or "not there",
        theirs.best / ours.best if theirs else None,
        f"goal {ENQUEUES_GOAL:,}/s",
        reached(ours.best >= ENQUEUES_GOAL),
    )


def _cpu(jobs: int, timings: Timings) -> Row:
    costs = {
        name: series((timing.cpu_seconds / timing.jobs * 1e6 for timing in runs), "µs")
        for name, runs in timings.items()
    }
    ours = costs[_name("penstock", jobs, ASYNCIO)]
    theirs = costs.get(_name("prototype", jobs, ASYNCIO))
    requirement = f"files, {jobs:,} jobs, {ASYNCIO}: CPU time per job"
    if theirs is None:
        return Row(requirement, ours)
    return Row(requirement, ours, "prototype", theirs, ours.best / theirs.best)


def _end_to_end(timings: list[Timing]) -> Series:
    is_bound = not all(timing.is_complete for timing in timings)
    return series((timing.jobs_per_second for timing in timings), "/s", "<" if is_bound else "")
