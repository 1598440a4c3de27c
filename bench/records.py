"""Records in a shared store: several processes enqueue, claim and ack at once, from end to end."""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import penstock
from bench.figures import Row, Series, passed, series
from bench.load import JOB_TYPE, PAYLOAD
from bench.plan import Plan

JOBS: Final = 20_000
JOBS_QUICK: Final = 6_000
CALLERS: Final = 128
DRAINERS: Final = 8
CLAIM: Final = 64
PROCESSES: Final = (1, 2)
SQLITE_BAR: Final = 18_300
"""Jobs per second from end to end, with two processes."""
TIMES_ONE_PROCESS: Final = 1.4
"""What two processes on a server have to do of what one does."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one process did, by a clock that all of the machine's processes have in common."""

    done: int
    started_at: float
    ended_at: float


def measure(plan: Plan) -> list[Row]:
    jobs = plan.scaled(JOBS, JOBS_QUICK)
    runs = {_name(count): partial(on_sqlite, jobs, count, plan.folder) for count in PROCESSES}
    rates = plan.interleaved(runs)
    return [_row(count, rates[_name(count)]) for count in PROCESSES]


def on_sqlite(jobs: int, processes: int, folder: str | None) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        return together(f"sqlite://{Path(place)}/queue.db", jobs, processes)


def together(url: str, jobs: int, processes: int) -> float:
    """Jobs per second, from the first enqueue of any process to the last ack of any."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=processes, mp_context=context) as pool:
        # Imports are not measured, and all begin at the same time.
        list(pool.map(_ready, range(processes)))
        begin_at = time.monotonic() + 0.5
        each = jobs // processes
        shares = list(pool.map(_work, *zip(*[(url, each, begin_at)] * processes, strict=True)))
    done = sum(share.done for share in shares)
    if done != each * processes:
        raise RuntimeError(f"{done:,} of {each * processes:,} jobs were done")
    started_at = min(share.started_at for share in shares)
    return done / (max(share.ended_at for share in shares) - started_at)


def processes_rows(requirements: Mapping[int, str], figures: Mapping[int, Series]) -> list[Row]:
    """By how many processes there were; those of two beside those of one."""
    one, two = figures[1], figures[2]
    ratio = two.best / one.best
    bar, verdict = f"≥ {TIMES_ONE_PROCESS:g}×", passed(ratio >= TIMES_ONE_PROCESS)
    beside = Row(requirements[2], two, "one process", one, ratio, bar, verdict)
    return [Row(requirements[1], one), beside]


def _ready(number: int) -> int:
    time.sleep(0.1)  # or one process could be quick enough to answer for two
    return number


def _work(url: str, jobs: int, begin_at: float) -> Share:
    return asyncio.run(_contend(url, jobs, begin_at))


async def _contend(url: str, jobs: int, begin_at: float) -> Share:
    turns, done = iter(range(jobs)), 0
    async with penstock.open(url) as queue:

        async def call() -> None:
            for _ in turns:
                await queue.enqueue(JOB_TYPE, PAYLOAD)

        async def work() -> None:
            nonlocal done
            while claimed := await queue.claim(CLAIM, wait_seconds=0.5):
                await queue.ack(claimed)
                done += len(claimed)
                ended_at.append(time.monotonic())

        ended_at: list[float] = []
        await asyncio.sleep(max(0.0, begin_at - time.monotonic()))
        started_at = time.monotonic()
        await asyncio.gather(*(call() for _ in range(CALLERS)))
        await asyncio.gather(*(work() for _ in range(DRAINERS)))
    return Share(done, started_at, max(ended_at, default=started_at))


def _name(processes: int) -> str:
    return f"sqlite, {processes} process{'es' if processes > 1 else ''}"


def _row(processes: int, rates: list[float]) -> Row:
    figure, requirement = series(rates, "/s"), f"{_name(processes)}: end to end"
    if processes == 1:
        return Row(requirement, figure)
    is_good = figure.best >= SQLITE_BAR
    return Row(requirement, figure, bar=f"≥ {SQLITE_BAR:,}/s", verdict=passed(is_good))
