"""Workers as real processes on one folder, and one of them killed with everything in its hands."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

import penstock
from penstock.kernel.job import State

JOBS = 64
LEASE_SECONDS = 3

PROGRAM = """
import asyncio, os, sys
from pathlib import Path
import penstock

url, folder, name, holds = sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4] == "holds"
app = penstock.App(url)

@app.task(retry=penstock.RetryPolicy(initial_seconds=0.01))
async def work(number: int) -> str:
    (folder / f"{name}-{number}").touch(exist_ok=False)
    if holds:
        await asyncio.Event().wait()
    return name

async def main():
    options = penstock.WorkerOptions(
        concurrency=64, lease_seconds=float(sys.argv[5]), name=name, jobs_max=64
    )
    print("ready", flush=True)
    await penstock.Worker(app, options).run()
    await app.close()

asyncio.run(main())
"""


async def started(*arguments: object) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, *map(str, arguments), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process


def by(worker: str, folder: Path) -> int:
    return len(list(folder.glob(f"{worker}-*")))


@pytest.mark.slow
async def test_all_jobs_of_a_killed_worker_run_again_none_lost_none_twice_at_once(
    tmp_path: Path,
) -> None:
    url = f"file://{tmp_path}/queue?fsync=off&clock_skew_seconds=0.5"
    ran = tmp_path / "ran"
    ran.mkdir()
    async with penstock.open(url) as queue:
        await queue.enqueue_many(penstock.NewJob("work", {"number": n}) for n in range(JOBS))
        first = await started(url, ran, "first", "holds", LEASE_SECONDS)
        async with asyncio.timeout(60):
            await claimed(queue, JOBS)
            second = await started(url, ran, "second", "works", LEASE_SECONDS)
            # Longer than a lease lasts, the first one keeps all of them.
            await extended(queue, 4 * JOBS)
            assert (by("first", ran), by("second", ran)) == (JOBS, 0)
            os.kill(first.pid, signal.SIGKILL)
            assert await first.wait() == -signal.SIGKILL
            assert await second.wait() == 0
        jobs = [job async for job in queue.jobs()]
        histories = [await queue.history(job.id) for job in jobs]
    assert (by("first", ran), by("second", ran)) == (JOBS, JOBS)
    assert [(job.state, job.attempt, job.result) for job in jobs] == [
        (State.COMPLETED, 2, "second")
    ] * JOBS
    for history in histories:
        happened = [event.event for event in history]
        assert happened == ["enqueued", "claimed", "expired", "claimed", "completed"]


async def claimed(queue: penstock.Queue, count: int) -> None:
    await happened(queue, "claimed", count)


async def extended(queue: penstock.Queue, count: int) -> None:
    await happened(queue, "extended", count)


async def happened(queue: penstock.Queue, event: str, count: int) -> None:
    """Follows the log until it has happened so many times."""
    async for each in queue.events("beginning"):
        count -= each.event == event
        if count == 0:
            return
