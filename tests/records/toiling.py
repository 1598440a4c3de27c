"""Processes that toil at one queue until they are killed, and what must be true afterwards."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from pathlib import Path

import penstock
from penstock.kernel.events import Completed
from penstock.kernel.job import State
from penstock.testing.conformance.backend.steps import nonzero

ROOT = Path(__file__).resolve().parents[2]
KILLED_AFTER = 40
"""How many answers one is heard to report before it dies, or its server does."""
RESCUE_SECONDS = 60.0

Told = list[dict[str, str]]


async def one_is_killed(url: str) -> Told:
    """What two processes told, of which one was killed; the other's work is done, too."""
    async with asyncio.timeout(120):
        doomed, survivor = [await toiler(url, name) for name in ("doomed", "survivor")]
        told = [await answer(doomed) for _ in range(KILLED_AFTER)]
        doomed.kill()
        told += await rest(doomed)
        survivor.terminate()
        told += await rest(survivor)
        await finish(url)
    return told


async def toiler(url: str, name: str) -> Process:
    command = (sys.executable, "-m", "tests.records.toiler", url, name)
    return await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=PIPE)


async def answer(process: Process) -> dict[str, str]:
    assert process.stdout is not None
    told: dict[str, str] = json.loads(await process.stdout.readline())
    return told


async def rest(process: Process) -> Told:
    return [json.loads(line) for line in (await process.communicate())[0].splitlines()]


async def finish(url: str) -> None:
    """Takes over what the dead left behind, once their leases have run out."""
    async with penstock.open(url) as queue, asyncio.timeout(RESCUE_SECONDS):
        while nonzero((await queue.stats()).totals).keys() != {"completed"}:
            for job in await queue.claim(100, wait_seconds=1):
                await queue.ack(job)


async def expect_nothing_lost(queue: penstock.Queue, told: Told) -> None:
    queued = {one["queued"] for one in told if "queued" in one}
    done = Counter(one["done"] for one in told if "done" in one)
    assert max(done.values()) == 1, "a job was acknowledged twice"
    jobs = {job.id: job async for job in queue.jobs()}
    assert queued <= jobs.keys(), "an enqueue that was told is gone"
    assert {job.state for job in jobs.values()} == {State.COMPLETED}
    events = [event async for event in queue.events("beginning", follow=False)]
    ends = Counter(event.id for event in events if isinstance(event, Completed))
    assert set(ends.values()) == {1}
