"""Flat in depth: the rate with 1,000,000 jobs pending, against the rate with 1,000.

The procedure is that of the prototype's `deep.py`, which is run as it is for its own ratio.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import penstock
from bench.contestants.queue import PenstockContestant
from bench.figures import Row, Series, passed, series
from bench.filling import fill, settled
from bench.load import Shape, Timing, drive
from bench.plan import Plan, isolated
from penstock.stores.memory import MemoryStore

DEPTHS: Final = (1_000, 100_000, 1_000_000)
JOBS: Final = 20_000
SHARE_MIN: Final = 0.85
"""Of the prototype's own ratio."""
_LINE: Final = re.compile(r"^(\d+) .* e2e (\d+)", re.MULTILINE)

Rates = dict[int, float]


def measure(plan: Plan) -> list[Row]:
    runs: dict[str, Callable[[], Rates]] = {"penstock": partial(isolated, penstock_rates)}
    if plan.prototype:
        runs["prototype"] = partial(prototype_rates, plan.prototype)
    rates = plan.interleaved(runs)
    ours, theirs = rates["penstock"], rates.get("prototype", [])
    return [*(_rate(depth, ours, theirs) for depth in DEPTHS), _flatness(ours, theirs)]


def penstock_rates() -> Rates:
    async def work() -> Rates:
        async with penstock.open(store=MemoryStore()) as queue:
            return {depth: (await _at(queue, depth)).jobs_per_second for depth in DEPTHS}

    return asyncio.run(work())


def prototype_rates(prototype: Path) -> Rates:
    command = [sys.executable, str(prototype / "deep.py")]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return {int(depth): float(rate) for depth, rate in _LINE.findall(ran.stdout)}


async def _at(queue: penstock.Queue, depth: int) -> Timing:
    stats = await queue.stats()
    await fill(queue, depth - sum(each.pending for each in stats.queues))
    await settled()
    return await drive(PenstockContestant(queue), Shape(JOBS))


def _rate(depth: int, ours: list[Rates], theirs: list[Rates]) -> Row:
    rate, requirement = _of(depth, ours), f"memory, {depth:,} pending: end to end"
    if not theirs:
        return Row(requirement, rate)
    limit = _of(depth, theirs)
    return Row(requirement, rate, "prototype", limit, limit.best / rate.best)


def _flatness(ours: list[Rates], theirs: list[Rates]) -> Row:
    requirement = f"rate at {max(DEPTHS):,} over that at {min(DEPTHS):,}"
    left, bar = _left(ours), f"≥ {SHARE_MIN} of its"
    if not theirs:
        return Row(requirement, left, "prototype", "not there", None, bar, "not measured")
    limit = _left(theirs)
    ratio = left.best / limit.best
    return Row(requirement, left, "prototype", limit, ratio, bar, passed(ratio >= SHARE_MIN))


def _left(rates: list[Rates]) -> Series:
    """From the best rates at either depth: the ratio of two noisy figures is noisier than both."""
    return series([_of(max(DEPTHS), rates).best / _of(min(DEPTHS), rates).best], "share")


def _of(depth: int, rates: list[Rates]) -> Series:
    return series((round[depth] for round in rates), "/s")
