"""Processes and servers that are killed in the middle: nothing told is lost or doubled."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest

import penstock
from penstock.address import parse
from penstock.insights.stored_records import StoredRecords
from penstock.kernel.events import Completed
from penstock.kernel.job import State
from penstock.runtime.services import Services
from penstock.wiring import open_records
from tests.servers.redis import Redis, own_redis

ROOT = Path(__file__).resolve().parents[2]
KILLED_AFTER = 40
"""How many acks the first is heard to report before it dies."""
RESCUE_SECONDS = 60.0
SERVER_KILLS = 2
# Turns that overlap have no one order.
NOT_PROMISED = {"claims follow the order"}


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/queue.db?clock_skew_seconds=0"
    server: Redis = request.getfixturevalue("redis_server")
    return f"{server.url}?prefix={uuid4().hex}&clock_skew_seconds=0"


async def test_of_two_processes_one_is_killed_and_the_other_does_its_work(url: str) -> None:
    async with asyncio.timeout(120):
        doomed, survivor = [await _toiler(url, name) for name in ("doomed", "survivor")]
        told = [await _told(doomed) for _ in range(KILLED_AFTER)]
        doomed.kill()
        told += await _rest(doomed)
        survivor.terminate()
        told += await _rest(survivor)
        await _finish(url)
    await _judge(url, told)


async def test_a_redis_that_is_killed_and_restarted_loses_nothing_it_has_acknowledged(
    tmp_path: Path,
) -> None:
    with own_redis(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:
        url = f"{server.url}?clock_skew_seconds=0"
        async with asyncio.timeout(120):
            toilers = [await _toiler(url, name) for name in ("one", "other")]
            told: list[dict[str, str]] = []
            for _ in range(SERVER_KILLS):
                told += [await _told(toiler) for toiler in toilers for _ in range(KILLED_AFTER)]
                server.kill()
                server.start()
            told += [await _told(toiler) for toiler in toilers for _ in range(KILLED_AFTER)]
            for toiler in toilers:
                toiler.terminate()
                told += await _rest(toiler)
            await _finish(url)
        await _judge(url, told)


async def _judge(url: str, told: list[dict[str, str]]) -> None:
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
        is_ordered = queue.capabilities.order == "strict"
    await _expect_sound(url, set() if is_ordered else NOT_PROMISED)


async def _rest(process: Process) -> list[dict[str, str]]:
    return [json.loads(line) for line in (await process.communicate())[0].splitlines()]


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


async def _expect_sound(url: str, not_promised: set[str]) -> None:
    store = open_records(parse(url, {}), Services())
    try:
        checks = [check async for check in StoredRecords(store).run()]
    finally:
        await store.close()
    assert {check.check for check in checks if check.verdict != "ok"} <= not_promised, checks
