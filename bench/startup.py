"""A queue of 1,000,000 pending jobs on files: what it weighs in memory, and how soon it is back."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import penstock
from bench.figures import Row, passed, series
from bench.filling import fill, settled
from bench.plan import Plan, isolated
from penstock.engines.ledger.layouts import open_journal
from penstock.engines.ledger.log.journal import LogJournal
from penstock.runtime.services import Services
from penstock.stores.local import LocalStore

JOBS: Final = 1_000_000
QUICK_JOBS: Final = 200_000
SECONDS_MAX_PER_MILLION: Final = 10.0
BYTES_PER_JOB_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class Opened:
    seconds: float
    bytes_per_job: float


def measure(plan: Plan) -> list[Row]:
    jobs = plan.scaled(JOBS, QUICK_JOBS)
    with tempfile.TemporaryDirectory(dir=plan.folder) as place:
        folder = Path(place) / "queue"
        plan.say(f"fills a queue with {jobs:,} jobs")
        filled = isolated(filled_bytes_per_job, folder, jobs)
        isolated(write_checkpoint, folder)
        runs = plan.interleaved({"opens it": partial(isolated, opened, folder, jobs)})
    opens = runs["opens it"]
    return [
        _memory(f"{jobs:,} enqueued: memory per job", [filled]),
        _memory(f"{jobs:,} loaded: memory per job", [run.bytes_per_job for run in opens]),
        _seconds(jobs, opens),
    ]


def filled_bytes_per_job(folder: Path, jobs: int) -> float:
    """The weight of jobs in the process that enqueued them."""

    async def work() -> float:
        # How it is written does not change what is kept, so the filling goes without fsync.
        async with penstock.open(folder.as_uri(), fsync=False) as queue:
            before = resident_bytes()
            await fill(queue, jobs)
            await settled()
            return (resident_bytes() - before) / jobs

    return asyncio.run(work())


def write_checkpoint(folder: Path) -> None:
    """A checkpoint of all jobs, at the last commit, whatever the tail weighs."""

    async def work() -> None:
        store = LocalStore(folder)
        journal = await open_journal(store, "log", Services(), lambda events: None)
        assert isinstance(journal, LogJournal)
        journal.checkpointer.begin(journal.state, journal.head)
        await settled()
        assert journal.checkpointer.newly_stored is not None
        await journal.close()
        await store.close()

    asyncio.run(work())


def opened(folder: Path, jobs: int) -> Opened:
    async def work() -> Opened:
        before, started_at = resident_bytes(), time.perf_counter()
        async with penstock.open(folder.as_uri()) as queue:
            seconds = time.perf_counter() - started_at
            found = sum(each.pending for each in (await queue.stats()).queues)
            if found != jobs:
                raise RuntimeError(f"{found:,} of {jobs:,} jobs are there")
            return Opened(seconds, (resident_bytes() - before) / jobs)

    return asyncio.run(work())


def _memory(requirement: str, measured: list[float]) -> Row:
    weight = series(measured, "bytes")
    bar = f"≤ {BYTES_PER_JOB_MAX:,} bytes"
    return Row(requirement, weight, bar=bar, verdict=passed(weight.best <= BYTES_PER_JOB_MAX))


def _seconds(jobs: int, opens: list[Opened]) -> Row:
    taken = series((run.seconds for run in opens), "s")
    limit = SECONDS_MAX_PER_MILLION * jobs / JOBS
    return Row(
        f"{jobs:,} pending: start-up from a checkpoint",
        taken,
        bar=f"≤ {limit:g} s",
        verdict=passed(taken.best <= limit),
    )


def resident_bytes() -> int:
    """What the process occupies, after everything that is free was given back."""
    gc.collect()
    if not sys.platform.startswith("linux"):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if hasattr(ctypes.CDLL(None), "malloc_trim"):
        ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
