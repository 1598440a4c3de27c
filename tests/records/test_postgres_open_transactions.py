"""A transaction that has enqueued and stays open: who waits for it, and who does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

import penstock
from penstock import NewJob, Queue
from penstock.engines.records import colliders
from penstock.engines.records.commit_reader import CommitReader
from penstock.engines.records.postgres import turning
from penstock.engines.records.postgres.store import PostgresStore
from penstock.errors import StoreUnavailable
from penstock.runtime.services import Services
from penstock.testing.conformance.backend.steps import claim_one, ids
from tests.records.postgres_stores import new_schema
from tests.servers.postgres import Postgres

pytestmark = pytest.mark.xdist_group("postgres")


@pytest.fixture(scope="module")
def database(postgres_server: Postgres) -> str:
    return postgres_server.new_database()


@pytest.fixture
def url(database: str) -> str:
    return f"{database}?schema={new_schema()}&fsync=off"


@pytest.fixture
async def queue(url: str) -> AsyncIterator[Queue]:
    async with penstock.open(url) as queue:
        yield queue


@pytest.fixture
async def connection(database: str) -> AsyncIterator[psycopg.AsyncConnection]:
    """Of somebody who takes their time."""
    async with (
        await psycopg.AsyncConnection.connect(database) as connection,
        asyncio.timeout(60),
    ):
        yield connection


async def test_of_a_batch_only_those_wait_who_bring_the_same_id_or_key(
    queue: Queue, connection: psycopg.AsyncConnection
) -> None:
    await queue.enqueue("ship", id="open", key="k", connection=connection)
    same_id = asyncio.ensure_future(queue.enqueue("ship", id="open"))
    same_key = asyncio.ensure_future(queue.enqueue("ship", id="other", key="k"))
    others = await asyncio.gather(*(queue.enqueue("ship", id=f"{n}") for n in range(50)))
    assert {one.status for one in others} == {"queued"}
    assert len(await queue.claim(50)) == 50
    assert not same_id.done()
    assert not same_key.done()
    await connection.commit()
    assert (await same_id).status == "duplicate"
    assert (await same_key).id == "open"


async def test_who_has_waited_long_enough_for_it_is_told_why(
    queue: Queue, connection: psycopg.AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colliders, "COLLIDED_SECONDS_MAX", 0.1)
    await queue.enqueue("ship", id="open", connection=connection)
    with pytest.raises(StoreUnavailable, match="still open has the same id or key"):
        await queue.enqueue("ship", id="open")
    await connection.rollback()
    assert (await queue.enqueue("ship", id="open")).status == "queued"


async def test_another_transaction_does_not_wait_for_it_without_end(
    queue: Queue,
    database: str,
    connection: psycopg.AsyncConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turning, "WAIT_SECONDS_MAX", 0.1)
    await queue.enqueue("ship", id="open", connection=connection)
    async with await psycopg.AsyncConnection.connect(database) as other:
        async with asyncio.timeout(60):
            with pytest.raises(StoreUnavailable, match="still open has the same id or key"):
                await queue.enqueue("ship", id="open", connection=other)
        monkeypatch.undo()
        await queue.enqueue("ship", id="other", connection=other)
        # Its own statements wait as they did.
        limit = await other.execute("SHOW lock_timeout")
        assert await limit.fetchone() == ("0",)
        await other.execute("SET LOCAL lock_timeout = '7s'")
        await queue.enqueue("ship", id="third", connection=other)
        limit = await other.execute("SHOW lock_timeout")
        assert await limit.fetchone() == ("7s",)
    assert await ids(queue) == ["other", "third"]


async def test_who_waits_for_it_does_not_keep_a_queue_from_closing(
    url: str, connection: psycopg.AsyncConnection
) -> None:
    async with penstock.open(url) as queue:
        await queue.enqueue("ship", id="open", connection=connection)
        waiting = asyncio.ensure_future(queue.enqueue("ship", id="open"))
        await queue.enqueue("ship", id="else")
    with pytest.raises(penstock.PenstockError):
        await waiting


async def test_a_call_is_answered_although_an_older_transaction_is_open(
    queue: Queue, url: str, connection: psycopg.AsyncConnection
) -> None:
    async with penstock.open(url) as worker:
        await queue.enqueue("ship", id="open", connection=connection)
        calling = asyncio.ensure_future(queue.call("ask", timeout_seconds=60))
        [job] = await worker.claim(types=["ask"], wait_seconds=30)
        await worker.ack(job, "answer")
        assert await calling == "answer"


async def test_a_pause_waits_for_nobody_and_nobody_for_it(
    queue: Queue, database: str, connection: psycopg.AsyncConnection
) -> None:
    await queue.enqueue("ship", id="open", connection=connection)
    await queue.pause()
    async with await psycopg.AsyncConnection.connect(database) as other:
        assert (await queue.enqueue("ship", id="second", connection=other)).status == "queued"
    await connection.commit()
    assert await queue.claim() == []
    await queue.resume()
    assert sorted(job.id for job in await queue.claim(5)) == ["open", "second"]


async def test_stats_show_how_far_the_events_lag(
    queue: Queue, connection: psycopg.AsyncConnection
) -> None:
    await queue.enqueue("ship", id="open", connection=connection)
    await queue.enqueue_many([NewJob("ship", id="a"), NewJob("ship", id="b")])
    await queue.ack(await claim_one(queue))
    assert (await queue.stats()).events_behind == 4
    await connection.commit()
    assert (await queue.stats()).events_behind == 0


async def test_what_commits_after_the_retention_is_still_to_be_read(
    queue: Queue, url: str, database: str, connection: psycopg.AsyncConnection
) -> None:
    """Vacuum stops below what may still come, so that readers are given it in order."""
    schema = penstock.address.parse(url, {}).options.schema
    await queue.enqueue("ship", id="before")
    await queue.enqueue("ship", id="open", connection=connection)
    await queue.enqueue("ship", id="after")
    with psycopg.connect(database) as other:
        age = f"UPDATE {schema}.commits SET at = at - 400000000"
        other.execute(age.encode())
    await queue.vacuum()
    await connection.commit()
    events = [event async for event in queue.events("beginning", follow=False)]
    assert [event.id for event in events[-2:]] == ["open", "after"]  # type: ignore[union-attr]
    assert await ids(queue) == ["before", "open", "after"]


async def test_a_turn_that_began_long_ago_and_shows_it_late_is_no_loss_to_a_reader(
    database: str, connection: psycopg.AsyncConnection
) -> None:
    """Its process was stopped between looking at the numbers and locking one of them."""
    schema = new_schema()
    async with penstock.open(f"{database}?schema={schema}") as queue:
        store = PostgresStore(database, Services(), schema=schema, fsync=False)
        await store.open()
        try:
            await queue.enqueue_many([NewJob("ship")] * 2)
            await queue.claim(1)
            reader = CommitReader(store, 0)
            assert await reader.read_on()
            await connection.execute(
                f"SELECT pg_advisory_xact_lock_shared('{schema}.commits'::regclass::oid::int, 0)"
            )
            await queue.claim(1)
            assert await reader.read_on() == []
            await connection.rollback()
            [(_, [event])] = await reader.read_on()
        finally:
            await store.close()
    assert event.event == "claimed"
