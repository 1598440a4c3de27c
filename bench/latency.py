"""How long one enqueue takes on files with fsync: alone, and among 256."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from bench.contestants import prototype, queue
from bench.figures import Row, series
from bench.load import Shape, Timing
from bench.loops import ASYNCIO
from bench.plan import Plan, isolated

SHAPES: Final = (Shape(1_000, callers=1), Shape(20_000, callers=256))


def measure(plan: Plan) -> list[Row]:
    rows = []
    for shape in SHAPES:
        runs: dict[str, Callable[[], Timing]] = {
            "penstock": partial(isolated, queue.on_files, shape, plan.folder, ASYNCIO)
        }
        if plan.prototype:
            runs["prototype"] = partial(
                isolated, prototype.on_files, plan.prototype, shape, plan.folder, ASYNCIO
            )
        timings = plan.interleaved(runs)
        rows += [_row(shape, timings, "p50"), _row(shape, timings, "p99")]
    return rows


def _row(shape: Shape, timings: dict[str, list[Timing]], percentile: str) -> Row:
    figures = {
        name: series((getattr(run, f"{percentile}_seconds") * 1000 for run in runs), "ms")
        for name, runs in timings.items()
    }
    callers = f"{shape.callers} caller{'s' if shape.callers > 1 else ''}"
    requirement = f"files, {callers}: {percentile} of an enqueue"
    ours, theirs = figures["penstock"], figures.get("prototype")
    if theirs is None:
        return Row(requirement, ours)
    return Row(requirement, ours, "prototype", theirs, ours.best / theirs.best)
