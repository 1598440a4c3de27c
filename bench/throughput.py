"""Files with fsync, 256 callers: against jqueue and against the prototype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bench.contestants import prototype, queue
from bench.figures import Row, Series, passed, reached, series
from bench.load import Shape, Timing
from bench.loops import ASYNCIO, UVLOOP, loops
from bench.plan import Plan, isolated

TIMES_JQUEUE: Final = {5_000: 13.0, 20_000: 55.0}
"""How much faster than jqueue a queue of this many jobs must be."""
TIMES_PROTOTYPE: Final = 2.5
ENQUEUES_GOAL: Final = 50_000
JQUEUE_SECONDS_MAX: Final = 120.0
JQUEUE_QUICK_SECONDS_MAX: Final = 60.0


def measure(plan: Plan) -> list[Row]:
    rows: list[Row] = []
    for jobs in TIMES_JQUEUE:
        timings = plan.interleaved(_runs(plan, jobs))
        rows.append(_against_jqueue(plan, jobs, timings))
        if jobs == max(TIMES_JQUEUE):
            rows += _against_prototype(timings)
    return rows


def _runs(plan: Plan, jobs: int) -> dict[str, Callable[[], Timing]]:
    shape, path, rival = Shape(jobs), plan.prototype, plan.jqueue
    runs: dict[str, Callable[[], Timing]] = {}
    for loop in loops() if jobs == max(TIMES_JQUEUE) else (ASYNCIO,):
        runs[f"penstock, {jobs:,} jobs, {loop}"] = lambda loop=loop: isolated(  # type: ignore[misc]
            queue.on_files, shape, plan.folder, loop
        )
        if path is not None:
            runs[f"prototype, {jobs:,} jobs, {loop}"] = lambda loop=loop: isolated(  # type: ignore[misc]
                prototype.on_files, path, shape, plan.folder, loop
            )
    if rival is not None:
        limit = JQUEUE_QUICK_SECONDS_MAX if plan.is_quick else JQUEUE_SECONDS_MAX
        runs[f"jqueue, {jobs:,} jobs"] = lambda: rival.run(jobs, plan.folder, limit)
    return runs
