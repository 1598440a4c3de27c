"""A server behind a pooler in transaction mode, or without LISTEN: all works, by looking."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from psycopg import errors

import penstock
from penstock import Queue
from penstock.testing.conformance.backend.steps import nonzero
from tests.records.pooler import pooling
from tests.records.postgres_stores import new_schema
from tests.servers.postgres import Postgres

pytestmark = pytest.mark.xdist_group("postgres")

JOBS = 60


async def test_a_queue_works_behind_a_pooler_of_transactions(
    postgres_server: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    database = postgres_server.new_database()
    async with pooling(database) as (address, pooler), asyncio.timeout(120):
        url = f"{address}?schema={new_schema()}&fsync=off"
        async with penstock.open(url) as first, penstock.open(url) as second:
            assert not first.capabilities.push
            assert "reached through a pooler" in caplog.text
            done: list[str] = []
            await asyncio.gather(_produce(first), _work(first, done), _work(second, done))
            assert len(set(done)) == len(done) == JOBS
            assert nonzero((await second.stats()).totals) == {"completed": JOBS}
            events = [event async for event in first.events("beginning", follow=False)]
            assert len(events) == 3 * JOBS
            await _expect_an_answer(first, second)
            async with await psycopg.AsyncConnection.connect(
                address, prepare_threshold=None
            ) as connection:
                await first.enqueue("work", id="yours", connection=connection)
                found = await connection.execute("SELECT current_setting('lock_timeout')")
                assert await found.fetchone() == ("0",), "a setting of ours was left behind"
            await second.pause()
            assert await first.claim() == []
        assert pooler.offences == []


async def _produce(queue: Queue) -> None:
    for number in range(JOBS):
        await queue.enqueue("work", key=f"{number}" if number % 3 == 0 else None)


async def _work(queue: Queue, done: list[str]) -> None:
    while len(done) < JOBS:
        jobs = await queue.claim(5, wait_seconds=1)
        await queue.ack(jobs)
        done += [job.id for job in jobs]


async def _expect_an_answer(caller: Queue, worker: Queue) -> None:
    calling = asyncio.ensure_future(caller.call("ask", timeout_seconds=60))
    [job] = await worker.claim(types=["ask"], wait_seconds=30)
    await worker.ack(job, "answer")
    assert await calling == "answer"


async def test_a_server_without_listen_is_asked_for_news(
    postgres_server: Postgres, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    execute = psycopg.Connection.execute

    def refuse(connection: psycopg.Connection[Any], query: Any, *given: Any, **named: Any) -> Any:
        if "LISTEN" in str(query):
            raise errors.FeatureNotSupported("LISTEN is not yet implemented")
        return execute(connection, query, *given, **named)

    monkeypatch.setattr(psycopg.Connection, "execute", refuse)
    url = f"{postgres_server.new_database()}?fsync=off"
    async with (
        penstock.open(url) as first,
        penstock.open(url) as second,
        asyncio.timeout(90),
    ):
        assert not first.capabilities.push
        assert "the server has no LISTEN" in caplog.text
        await _expect_an_answer(first, second)
