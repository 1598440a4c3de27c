"""Processes that work on one folder and are killed in the middle: nothing told is lost."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from pathlib import Path

import penstock
from penstock.address import parse
from penstock.insights.stored import StoredState
from penstock.kernel.events import Completed
from penstock.kernel.job import State
from penstock.wiring import open_store

ROOT = Path(__file__).resolve().parents[2]
KILLED_AFTER = 40
"""How many answers the first is heard to report before it dies."""
RESCUE_SECONDS = 60.0


async def test_of_two_processes_one_is_killed_and_the_other_does_its_work(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/queue?layout=tasks&fsync=off&clock_skew_seconds=0"
    async with asyncio.timeout(120):
        doomed, survivor = [await _toiler(url, name) for name in ("doomed", "survivor")]
        told = [await _told(doomed) for _ in range(KILLED_AFTER)]
        doomed.kill()
        told += [json.loads(line) for line in (await doomed.communicate())[0].splitlines()]
        survivor.terminate()
        told += [json.loads(line) for line in (await survivor.communicate())[0].splitlines()]
        await _finish(url)
    queued = {one["queued"] for one in told if "queued" in one}
    done = Counter(one["done"] for one in told if "done" in one)
    assert max(done.values()) == 1, "a job was acknowledged twice"
    async with penstock.open(url) as queue:
        jobs = {job.id: job async for job in queue.jobs()}
        assert queued <= jobs.keys(), "an enqueue that was told is gone"
        assert {job.state for job in jobs.values()} == {State.COMPLETED}
        told_events = [event async for event in queue.events("beginning", follow=False)]
        ends = Counter(event.id for event in told_events if isinstance(event, Completed))
        assert set(ends.values()) == {1}
        await queue.repair()
    await _expect_sound(url)


async def _toiler(url: str, name: str) -> Process:
    command = (sys.executable, "-m", "tests.records.toiler", url, name)
    return await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=PIPE)


async def _told(process: Process) -> dict[str, str]:
    assert process.stdout is not None
    told: dict[str, str] = json.loads(await process.stdout.readline())
    return told


async def _finish(url: str) -> None:
    """Takes over what the dead left behind, once their leases have run out."""
    async with penstock.open(url) as queue, asyncio.timeout(RESCUE_SECONDS):
        while (await queue.stats()).totals.keys() != {"completed"}:
            for job in await queue.claim(100, wait_seconds=1):
                await queue.ack(job)


async def _expect_sound(url: str) -> None:
    store = open_store(parse(url, {}))
    try:
        checks = [check async for check in StoredState(store).run()]
    finally:
        await store.close()
    wrong = [check for check in checks if check.verdict == "fail"]
    assert not wrong, wrong
