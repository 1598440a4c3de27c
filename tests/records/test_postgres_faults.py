"""Connections that break, sessions that are ended and servers that die: nothing told is lost."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

import penstock
from penstock import Queue
from penstock.address import parse
from penstock.engines.records.postgres import steps
from penstock.insights.stored_records import StoredRecords
from penstock.kernel.events import Completed
from penstock.kernel.job import State
from penstock.runtime.services import Services
from penstock.testing.conformance.backend.steps import ids, nonzero
from penstock.wiring import open_records
from tests.records.own_postgres import own_postgres
from tests.records.postgres_stores import new_schema
from tests.records.toiling import answer, toiler
from tests.servers.postgres import Postgres

pytestmark = pytest.mark.xdist_group("postgres")

ROOT = Path(__file__).resolve().parents[2]
TOLD_BEFORE = 40
"""How many answers are heard before something is broken."""
TOLD_AFTER = 40
RESCUE_SECONDS = 60.0


@pytest.fixture(scope="module")
def database(postgres_server: Postgres) -> str:
    return postgres_server.new_database()


@pytest.fixture
def url(database: str) -> str:
    return f"{database}?schema={new_schema()}&clock_skew_seconds=0"


@pytest.fixture
async def queue(url: str) -> AsyncIterator[Queue]:
    async with penstock.open(url, fsync=False) as queue:
        yield queue


Exchange = Callable[..., list[Any]]


@pytest.mark.parametrize("is_sent", [True, False])
async def test_a_commit_that_is_not_answered_is_found_out(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, is_sent: bool
) -> None:
    """Whether the server had it or not: it happens once, and its caller is told so."""
    exchange: Exchange = steps._exchange
    lost: list[bool] = []

    def lose_one(connection: psycopg.Connection[Any], sent: Any, *, is_ours: bool) -> list[Any]:
        if not lost and any(step.statement == "COMMIT" for step in sent):
            lost.append(True)
            if is_sent:
                exchange(connection, sent, is_ours=is_ours)
            connection.close()
            raise psycopg.OperationalError("the connection is lost")
        return exchange(connection, sent, is_ours=is_ours)

    monkeypatch.setattr(steps, "_exchange", lose_one)
    receipt = await queue.enqueue("work", id="once")
    assert lost
    assert receipt.status == "queued"
    assert len(await queue.history("once")) == 1
    assert nonzero((await queue.stats()).totals) == {"pending": 1}


async def test_a_number_that_is_given_again_is_not_taken_for_ones_own(
    queue: Queue, database: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crashed server may do so, since it need not have stored that it gave it."""
    exchange: Exchange = steps._exchange
    schema = parse(url, {}).options.schema
    lost: list[bool] = []

    def lose_one(connection: psycopg.Connection[Any], sent: Any, *, is_ours: bool) -> list[Any]:
        if not lost and any(step.statement == "COMMIT" for step in sent):
            lost.append(True)
            connection.close()
            with psycopg.connect(database) as other:
                taken = f"SELECT last_value, 0, '' FROM {schema}.numbers"
                add = f"INSERT INTO {schema}.commits (number, at, events) {taken}"
                other.execute(add.encode())
            raise psycopg.OperationalError("the connection is lost")
        return exchange(connection, sent, is_ours=is_ours)

    monkeypatch.setattr(steps, "_exchange", lose_one)
    assert (await queue.enqueue("work", id="once")).status == "queued"
    assert await ids(queue) == ["once"]


async def test_sessions_that_are_ended_in_the_middle_lose_nothing(url: str, database: str) -> None:
    end = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'penstock' AND datname = current_database()"
    )
    async with asyncio.timeout(120):
        process = await toiler(url, "toiler")
        told: list[dict[str, str]] = []
        with psycopg.connect(database, autocommit=True) as connection:
            for _ in range(8):
                told += [await answer(process) for _ in range(TOLD_BEFORE // 4)]
                connection.execute(end)
        told += [await answer(process) for _ in range(TOLD_AFTER)]
        told += await _killed(process)
        await _expect_all_done(url, told)


async def test_a_server_that_is_killed_and_started_again_loses_nothing() -> None:
    with own_postgres() as server:
        url = f"{server.url}?clock_skew_seconds=0"
        async with asyncio.timeout(120):
            toilers = [await toiler(url, name) for name in ("first", "second")]
            told: list[dict[str, str]] = []
            for _ in range(2):
                for process in toilers:
                    told += [await answer(process) for _ in range(TOLD_BEFORE)]
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            for process in toilers:
                told += [await answer(process) for _ in range(TOLD_AFTER)]
                told += await _killed(process)
            await _expect_all_done(url, told)


async def test_of_two_processes_one_is_killed_and_the_other_does_its_work(url: str) -> None:
    async with asyncio.timeout(120):
        doomed, survivor = [await toiler(url, name) for name in ("doomed", "survivor")]
        told = [await answer(doomed) for _ in range(TOLD_BEFORE)]
        told += await _killed(doomed)
        told += [await answer(survivor) for _ in range(TOLD_AFTER)]
        told += await _killed(survivor)
        await _expect_all_done(url, told)


async def _killed(process: Process) -> list[dict[str, str]]:
    """What it had said by then."""
    process.kill()
    lines = (await process.communicate())[0].splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


async def _expect_all_done(url: str, told: list[dict[str, str]]) -> None:
    """Once what the dead left behind is done: all that was told, each once."""
    async with penstock.open(url) as queue:
        async with asyncio.timeout(RESCUE_SECONDS):
            while nonzero((await queue.stats()).totals).keys() != {"completed"}:
                await queue.ack(await queue.claim(100, wait_seconds=1))
        queued = {one["queued"] for one in told if "queued" in one}
        done = Counter(one["done"] for one in told if "done" in one)
        assert max(done.values()) == 1, "a job was acknowledged twice"
        jobs = {job.id: job async for job in queue.jobs()}
        assert queued | done.keys() <= jobs.keys(), "something that was told is gone"
        assert {job.state for job in jobs.values()} == {State.COMPLETED}
        events = [event async for event in queue.events("beginning", follow=False)]
        ends = Counter(event.id for event in events if isinstance(event, Completed))
        assert set(ends.values()) == {1}
    store = open_records(parse(url, {}), Services())
    try:
        checks = [check async for check in StoredRecords(store).run()]
    finally:
        await store.close()
    assert {check.verdict for check in checks} == {"ok"}, checks
