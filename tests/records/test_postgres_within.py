"""Enqueuing in a transaction of the caller's own: with it the job is there, or never was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from psycopg.pq import TransactionStatus

import penstock
from penstock import NewJob, Queue
from penstock.address import parse
from penstock.client.blocking import BlockingQueue
from penstock.errors import InvalidInput, Moved, StoreMissing, Unsupported
from penstock.kernel.commands import MoveQueue
from penstock.kernel.events import SYSTEM_TENANT
from penstock.kernel.job import State
from penstock.testing.conformance.backend.steps import claim_one, found, ids, nonzero
from penstock.testing.interruption import Interruption, Moment
from tests.cli.running import got
from tests.records.postgres_stores import new_schema
from tests.servers.postgres import Postgres

pytestmark = pytest.mark.xdist_group("postgres")


@pytest.fixture(scope="module")
def database(postgres_server: Postgres) -> str:
    url = postgres_server.new_database()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE orders (number integer PRIMARY KEY)")
    return url


@pytest.fixture
def url(database: str) -> str:
    return f"{database}?schema={new_schema()}&fsync=off"


@pytest.fixture
async def queue(url: str) -> AsyncIterator[Queue]:
    async with penstock.open(url) as queue:
        yield queue


async def test_a_job_is_there_when_the_transaction_commits(queue: Queue, database: str) -> None:
    async with await psycopg.AsyncConnection.connect(database) as connection:
        await connection.execute("INSERT INTO orders VALUES (1)")
        receipt = await queue.enqueue("ship", {"order": 1}, connection=connection)
        assert receipt.status == "queued"
        assert await queue.claim() == []
        await connection.commit()
        assert (await claim_one(queue)).payload == {"order": 1}


async def test_a_job_never_was_when_the_transaction_is_rolled_back(
    queue: Queue, database: str
) -> None:
    async with await psycopg.AsyncConnection.connect(database) as connection:
        await connection.execute("INSERT INTO orders VALUES (2)")
        await queue.enqueue("ship", id="two", connection=connection)
        await connection.rollback()
    assert await queue.get("two") is None
    assert await queue.history("two") == []
    assert nonzero((await queue.stats()).totals) == {}
    assert (await queue.enqueue("ship", id="two")).status == "queued"


async def test_the_same_call_in_another_transaction_adds_nothing(
    queue: Queue, database: str
) -> None:
    async with await psycopg.AsyncConnection.connect(database) as connection:
        first = await queue.enqueue("ship", connection=connection, operation="order 9")
        await connection.rollback()
        again = await queue.enqueue("ship", connection=connection, operation="order 9")
        await connection.commit()
        assert (first.id, first.status, again.status) == (again.id, "queued", "queued")
        await queue.cancel(again.id)
        third = await queue.enqueue("ship", connection=connection, operation="order 9")
        assert (third.id, third.status) == (again.id, "duplicate")
        life = await queue.enqueue("ship", id=again.id, connection=connection)
        await connection.commit()
        assert life.status == "queued"
        assert (await claim_one(queue)).life == life.life


async def test_several_calls_in_one_transaction_see_each_other(queue: Queue, database: str) -> None:
    async with await psycopg.AsyncConnection.connect(database) as connection:
        async with connection.transaction():
            first = await queue.enqueue("ship", id="a", connection=connection)
            again, other = await queue.enqueue_many(
                [NewJob("ship", id="a"), NewJob("ship", id="b")], connection=connection
            )
        assert [one.status for one in (first, again, other)] == [  # type: ignore[union-attr]
            "queued", "duplicate", "queued",
        ]  # fmt: skip
    assert await ids(queue) == ["a", "b"]
    events = [event async for event in queue.events("beginning", follow=False)]
    assert [event.position for event in events] == sorted(event.position for event in events)


async def test_what_is_refused_leaves_the_transaction_as_it_was(
    queue: Queue, url: str, database: str
) -> None:
    await queue.enqueue("ship", id="holder", key="k")
    schema = parse(url, {}).options.schema
    async with await psycopg.AsyncConnection.connect(database) as connection:
        await connection.execute("INSERT INTO orders VALUES (3)")
        duplicate = await queue.enqueue("ship", key="k", connection=connection)
        assert (duplicate.status, duplicate.id) == ("duplicate", "holder")
        with psycopg.connect(database) as other:
            other.execute(f"ALTER SCHEMA {schema} RENAME TO {schema}_away".encode())
        with pytest.raises(StoreMissing):
            await queue.enqueue("ship", connection=connection)
        await connection.commit()
        found = await connection.execute("SELECT count(*) FROM orders WHERE number = 3")
        assert await found.fetchone() == (1,)


async def test_who_waits_is_woken_by_the_commit_and_not_before(
    queue: Queue, url: str, database: str
) -> None:
    async with (
        penstock.open(url) as worker,
        await psycopg.AsyncConnection.connect(database) as connection,
        asyncio.timeout(20),
    ):
        waiting = asyncio.gather(worker.claim(wait_seconds=60))
        await queue.enqueue("ship", id="news", connection=connection)
        assert not waiting.done()
        await connection.commit()
        [[job]] = await waiting
    assert job.id == "news"


async def test_a_blocking_connection_serves_as_well(queue: Queue, database: str) -> None:
    with psycopg.connect(database) as connection:
        await queue.enqueue("ship", id="sync", connection=connection)
        connection.rollback()
        await queue.enqueue("ship", id="later", connection=connection)
    assert await ids(queue) == ["later"]


def test_the_blocking_queue_takes_one_too(url: str, database: str) -> None:
    with penstock.open_sync(url) as queue, psycopg.connect(database) as connection:
        assert isinstance(queue, BlockingQueue)
        queue.enqueue("ship", id="sync", connection=connection)
        assert queue.get("sync") is None
        connection.commit()
        assert got(queue, "sync").state is State.PENDING


async def test_work_goes_on_while_a_transaction_stays_open(queue: Queue, database: str) -> None:
    """Enqueues, claims and acks wait for nobody who only enqueued something else."""
    await queue.enqueue("ship", id="seen")
    async with (
        await psycopg.AsyncConnection.connect(database) as connection,
        asyncio.timeout(20),
    ):
        for id in ("seen", "open"):
            await queue.enqueue("ship", id=id, connection=connection)
        await queue.ack(await claim_one(queue))
        assert (await found(queue, "seen")).state is State.COMPLETED
        await connection.commit()
    assert (await claim_one(queue)).id == "open"


async def test_a_queue_is_not_closed_under_an_open_transaction(
    queue: Queue, url: str, database: str
) -> None:
    """Or a job could come into a queue that was closed meanwhile. Others work on until then."""
    async with (
        penstock.open(url) as other,
        await psycopg.AsyncConnection.connect(database) as first,
        await psycopg.AsyncConnection.connect(database) as second,
        asyncio.timeout(60),
    ):
        await queue.enqueue("ship", id="open", connection=first)
        close = MoveQueue(SYSTEM_TENANT, "move", "memory://")
        closing = asyncio.ensure_future(other._backend.execute(close))
        await queue.enqueue("ship", id="second", connection=second)
        await queue.enqueue("ship", id="elsewhere")
        assert (await claim_one(queue)).id == "elsewhere"
        assert not closing.done()
        await first.commit()
        await second.commit()
        await closing
        with pytest.raises(Moved):
            await queue.enqueue("ship", id="late", connection=first)


@pytest.mark.parametrize("level", ["REPEATABLE_READ", "SERIALIZABLE"])
async def test_a_transaction_that_lives_in_the_past_is_refused(
    queue: Queue, database: str, level: str
) -> None:
    async with await psycopg.AsyncConnection.connect(database) as connection:
        await connection.set_isolation_level(psycopg.IsolationLevel[level])
        with pytest.raises(InvalidInput, match="READ COMMITTED"):
            await queue.enqueue("ship", connection=connection)
        found = await connection.execute("SELECT 1")
        assert await found.fetchone() == (1,)


async def test_of_two_transactions_with_one_id_one_queues(queue: Queue, database: str) -> None:
    async with (
        await psycopg.AsyncConnection.connect(database) as first,
        await psycopg.AsyncConnection.connect(database) as second,
        asyncio.timeout(20),
    ):
        await queue.enqueue("ship", id="one", connection=first)
        waiting = asyncio.gather(queue.enqueue("ship", id="one", connection=second))
        await first.commit()
        [receipt] = await waiting
        await second.commit()
    assert receipt.status == "duplicate"


async def wait_until_somebody_waits(database: str) -> None:
    """Until a session of the database waits for another one's transaction."""
    asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        while True:
            waiting = await connection.execute(f"{asked} AND wait_event_type = 'Lock'".encode())
            if await waiting.fetchone() != (0,):
                return


async def test_conflicts_again_and_again_leave_the_transaction_as_it_was(
    queue: Queue, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also what the driver has prepared for the caller, and what it has counted for us."""
    async with (
        await psycopg.AsyncConnection.connect(database) as first,
        await psycopg.AsyncConnection.connect(database) as second,
        asyncio.timeout(60),
    ):
        for number in range(8):
            await queue.enqueue("ship", id=f"{number}", connection=first)
            await second.execute("SELECT 1", prepare=True)
            waiting = asyncio.gather(
                queue.enqueue("ship", id=f"{number}", connection=second),
                queue.enqueue("ship", id=f"{number}"),
            )
            await wait_until_somebody_waits(database)
            await first.commit()
            assert [one.status for one in await waiting] == ["duplicate", "duplicate"]
            await queue.enqueue("ship", id=f"{number} of the second", connection=second)
            await second.execute("SELECT 1", prepare=True)
            await second.commit()
    assert len(await ids(queue)) == 16
    assert [one.message for one in caplog.records if one.name.startswith("psycopg")] == []


@pytest.mark.parametrize("kind", ["async", "blocking"])
async def test_calls_at_once_on_one_connection_are_taken_one_after_the_other(
    queue: Queue, database: str, kind: str
) -> None:
    """So that what one of them takes back is nothing that another was told it has."""
    await queue.enqueue("ship", id="there")
    async with (
        await psycopg.AsyncConnection.connect(database) as first,
        asyncio.timeout(60),
    ):
        with psycopg.connect(database) as second:
            connection = first if kind == "async" else second
            receipts = await asyncio.gather(
                *(
                    queue.enqueue("ship", id=id, connection=connection)
                    for id in ("a", "there", "b", "a", "there", "c")
                )
            )
    assert sorted(f"{one.id} {one.status}" for one in receipts) == [
        "a duplicate", "a queued", "b queued", "c queued", "there duplicate", "there duplicate",
    ]  # fmt: skip
    assert sorted(await ids(queue)) == ["a", "b", "c", "there"]


async def test_a_call_that_is_cancelled_leaves_the_transaction_as_it_was(
    queue: Queue, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        await psycopg.AsyncConnection.connect(database) as first,
        await psycopg.AsyncConnection.connect(database) as second,
        asyncio.timeout(60),
    ):
        await queue.enqueue("ship", id="one", connection=first)
        await queue.enqueue("ship", id="before", connection=second)
        waiting = asyncio.ensure_future(queue.enqueue("ship", id="one", connection=second))
        await wait_until_somebody_waits(database)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await first.rollback()
        await queue.enqueue("ship", id="after", connection=second)
        await second.commit()
    assert sorted(await ids(queue)) == ["after", "before"]
    assert [one.message for one in caplog.records if one.name.startswith("psycopg")] == []


@pytest.mark.parametrize("moment", ["under way", "arrived"])
async def test_wherever_a_call_is_cancelled_the_transaction_goes_on(
    moment: Moment, queue: Queue, database: str
) -> None:
    async with await psycopg.AsyncConnection.connect(database) as connection:
        await queue.enqueue("ship", id="before", connection=connection)
        kept, at = ["before"], 0
        while True:
            at += 1
            calling = queue.enqueue("ship", id=f"{at}", connection=connection)
            caller = Interruption(calling, at=at, moment=moment)
            await caller.run()
            assert connection.info.transaction_status is TransactionStatus.INTRANS
            await queue.enqueue("ship", id=f"after {at}", connection=connection)
            kept.append(f"after {at}")
            if not caller.happened:
                break
        await connection.commit()
    assert at > 3
    there = await ids(queue)
    # But for one that was cancelled when it was done, in the moment before it was told.
    assert set(kept) <= set(there)
    assert set(there) - set(kept) <= {f"{at - 1}", f"{at}"}


async def test_a_connection_to_another_queue_is_refused(
    queue: Queue, url: str, postgres_server: Postgres
) -> None:
    other = postgres_server.new_database()
    async with penstock.open(f"{other}?{url.partition('?')[2]}") as second:
        async with await psycopg.AsyncConnection.connect(other) as connection:
            with pytest.raises(InvalidInput, match="leads to another database"):
                await queue.enqueue("ship", id="lost", connection=connection)
            # It is as it was, and of use to whom it leads to.
            await second.enqueue("ship", id="found", connection=connection)
        assert await second.get("lost") is None
        assert await second.get("found") is not None


async def test_a_connection_without_a_transaction_is_refused(queue: Queue, database: str) -> None:
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        with pytest.raises(InvalidInput, match="in no transaction"):
            await queue.enqueue("ship", connection=connection)
    with pytest.raises(InvalidInput, match="psycopg 3"):
        await queue.enqueue("ship", connection="a connection")


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_elsewhere_it_is_unsupported(kind: str, tmp_path: Path) -> None:
    url = "memory://" if kind == "memory" else f"sqlite://{tmp_path}/queue.db"
    async with penstock.open(url) as queue:
        with pytest.raises(Unsupported, match="in your transaction"):
            await queue.enqueue("ship", connection=object())
        assert await ids(queue) == []


async def test_a_transaction_that_has_failed_is_refused_and_can_go_back(
    queue: Queue, database: str
) -> None:
    async with await psycopg.AsyncConnection.connect(database) as connection:
        await connection.execute("SAVEPOINT before")
        with pytest.raises(psycopg.errors.DivisionByZero):
            await connection.execute("SELECT 1/0")
        with pytest.raises(InvalidInput, match="has failed: roll it back"):
            await queue.enqueue("ship", id="late", connection=connection)
        await connection.execute("ROLLBACK TO SAVEPOINT before")
        await queue.enqueue("ship", id="late", connection=connection)
        await connection.commit()
    assert (await found(queue, "late")).type == "ship"
