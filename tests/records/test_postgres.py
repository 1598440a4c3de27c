"""PostgreSQL: what it promises and refuses, who is in whose way, how it goes by its indexes."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

import penstock
from penstock import NewJob, Queue
from penstock.address import parse
from penstock.engines.records.postgres import database as databases
from penstock.engines.records.postgres.statements import Statements
from penstock.engines.records.statements import migrations
from penstock.errors import (
    Corrupt,
    InvalidURL,
    MissingExtra,
    NewerFormat,
    StoreDenied,
    StoreMissing,
    StoreUnavailable,
    Unsupported,
)
from penstock.kernel.job import State
from penstock.testing.conformance.backend.steps import claim_one, completed, ids, nonzero
from tests.records.own_postgres import OwnPostgres, own_postgres
from tests.records.postgres_stores import new_schema
from tests.servers.postgres import Postgres
from tests.servers.shared import free_port

pytestmark = pytest.mark.xdist_group("postgres")

PACKAGE = "penstock.engines.records.postgres"
BACKLOG = 100_000
LANES = 3
COUNT = 500
PASSWORD = "open-sesame"


@pytest.fixture(scope="module")
def database(postgres_server: Postgres) -> str:
    return postgres_server.new_database()


@pytest.fixture
def schema() -> str:
    return new_schema()


@pytest.fixture
def url(database: str, schema: str) -> str:
    return f"{database}?schema={schema}"


@pytest.fixture
async def queue(url: str) -> AsyncIterator[Queue]:
    async with penstock.open(url, fsync=False) as queue:
        yield queue


@contextmanager
def connected(database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


# What it promises


async def test_a_queue_says_what_it_can_do(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock")
    async with penstock.open(url) as queue:
        can = queue.capabilities
        assert (can.push, can.durability, can.pause, can.multi_process) == (
            True, "strict", "strict", True,
        )  # fmt: skip
    [said] = [one.message for one in caplog.records if "durability" in one.message]
    assert "strict (fsync=on, synchronous_commit=on)" in said


async def test_without_fsync_durability_is_relaxed(queue: Queue) -> None:
    assert queue.capabilities.durability == "relaxed"


async def test_a_server_that_does_not_wait_for_its_disk_is_relaxed(
    postgres_server: Postgres,
) -> None:
    lazy = postgres_server.new_database()
    name = lazy.rpartition("/")[2]
    with connected(lazy) as connection:
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off".encode())
    async with penstock.open(lazy) as queue:
        assert queue.capabilities.durability == "relaxed"


async def test_handles_in_one_process_take_turns(url: str) -> None:
    async with penstock.open(url, fsync=False) as first, penstock.open(url, fsync=False) as second:
        for queue in (first, second):
            await queue.enqueue_many([NewJob("work", queue=f"q{n % 3}") for n in range(60)])
        done: list[str] = []

        async def work(queue: Queue) -> None:
            while nonzero((await queue.stats()).totals).keys() != {"completed"}:
                jobs = await queue.claim(3)
                await queue.ack(jobs)
                done.extend(job.id for job in jobs)

        await asyncio.gather(*(work(queue) for queue in (first, second) * 2))
        assert len(done) == len(set(done)) == 120
        assert nonzero((await first.stats()).totals) == {State.COMPLETED: 120}


async def test_two_that_make_one_queue_at_the_same_time_make_one(url: str) -> None:
    queues = [penstock.open(url, fsync=False) for _ in range(5)]
    await asyncio.gather(*(queue.start() for queue in queues))
    await asyncio.gather(*(queue.enqueue("work", id="one") for queue in queues))
    assert await ids(queues[0]) == ["one"]
    for queue in queues:
        await queue.close()


# What it refuses


async def test_a_schema_newer_than_the_code_is_refused(
    url: str, database: str, schema: str
) -> None:
    async with penstock.open(url) as queue:
        await queue.enqueue("work")
    with connected(database) as connection:
        connection.execute(f"UPDATE {schema}.format SET level = 99".encode())
    with pytest.raises(NewerFormat, match="upgrade penstock") as raised:
        async with penstock.open(url):
            pass
    assert (raised.value.level, raised.value.known) == (99, len(migrations(PACKAGE)))


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{PASSWORD}@host/db?schema=Not%20Plain",
        f"postgresql://me:{PASSWORD}@host/db?sslmood=require",
        f"postgresql://host/db?password={PASSWORD}&layout=log",
        f"s3://me:{PASSWORD}@bucket/prefix",
    ],
)
def test_an_address_that_is_wrong_is_refused_and_keeps_its_secret(url: str) -> None:
    with pytest.raises(InvalidURL) as raised:
        penstock.open(url)
    assert PASSWORD not in str(raised.value)


def test_what_is_not_ours_goes_to_the_driver() -> None:
    address = parse("postgresql://me@host/db?sslmode=require&tenant=acme&schema=jobs", {})
    assert address.server_url == "postgresql://me@host/db?sslmode=require"
    assert (address.options.tenant, address.options.schema) == ("acme", "jobs")


async def test_no_server_and_no_database_are_said(postgres_server: Postgres) -> None:
    with pytest.raises(StoreUnavailable, match="refused"):
        async with penstock.open(f"postgresql://me:{PASSWORD}@127.0.0.1:{free_port()}/db"):
            pass
    with pytest.raises(StoreMissing, match="create it"):
        async with penstock.open(f"{postgres_server.address}/nowhere"):
            pass


async def test_who_may_not_make_the_schema_is_told_what_to_run(
    postgres_server: Postgres, schema: str
) -> None:
    own = postgres_server.new_database()
    with connected(own) as connection:
        connection.execute(f"CREATE ROLE {schema} LOGIN".encode())
    poor = own.replace("postgres@", f"{schema}@")
    with pytest.raises(StoreDenied, match=f"CREATE SCHEMA penstock AUTHORIZATION {schema}"):
        async with penstock.open(poor):
            pass
    with connected(own) as connection:
        connection.execute(f"CREATE SCHEMA penstock AUTHORIZATION {schema}".encode())
    async with penstock.open(poor) as queue:
        await completed(queue)


async def test_who_only_works_needs_no_more_than_the_tables(
    postgres_server: Postgres, schema: str
) -> None:
    own = postgres_server.new_database()
    async with penstock.open(own):
        pass
    with connected(own) as connection:
        grants = (
            f"CREATE ROLE {schema} LOGIN; GRANT USAGE ON SCHEMA penstock TO {schema};"
            f" GRANT USAGE, SELECT ON SEQUENCE penstock.numbers TO {schema};"
            f" GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA penstock TO {schema}"
        )
        connection.execute(grants.encode())
    async with penstock.open(own.replace("postgres@", f"{schema}@")) as queue:
        await completed(queue)
        await queue.pause()
        await queue.vacuum()
        assert nonzero((await queue.stats()).totals) == {"completed": 1}


@pytest.fixture(scope="module")
def locked_server() -> Iterator[OwnPostgres]:
    """Its one user has a password."""
    with own_postgres() as server:
        with connected(server.url) as connection:
            connection.execute(f"CREATE ROLE me SUPERUSER LOGIN PASSWORD '{PASSWORD}'".encode())
        server.require_passwords()
        yield server


async def test_a_wrong_password_is_said_and_not_shown(locked_server: OwnPostgres) -> None:
    right = locked_server.url.replace("postgres@", f"me:{PASSWORD}@")
    async with penstock.open(right) as queue:
        await completed(queue)
        assert PASSWORD not in repr(queue)
    with pytest.raises(StoreDenied, match="password authentication failed") as raised:
        async with penstock.open(right.replace(PASSWORD, "open-wheat")):
            pass
    assert "open-wheat" not in str(raised.value)


async def test_an_old_server_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psycopg.ConnectionInfo, "server_version", 120_005)
    with pytest.raises(Unsupported, match="PostgreSQL 12, older than 13"):
        async with penstock.open(url):
            pass


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib
    import sys

    for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    with pytest.raises(MissingExtra, match=r"penstock\[postgres\]"):
        importlib.import_module(PACKAGE)


@pytest.mark.parametrize(
    "change",
    [
        "body = convert_to(replace(convert_from(body, 'UTF8'), 'job', 'bob'), 'UTF8')",
        "body = substr(body, 1, 40)",
        "shelf = 'completed', kept_at = 1, due_at = NULL",
        "life = life + 1",
    ],
)
async def test_an_altered_row_is_corrupt_and_nothing_is_done_with_it(
    queue: Queue, database: str, schema: str, change: str
) -> None:
    await queue.enqueue("work", id="job")
    with connected(database) as connection:
        connection.execute(f"UPDATE {schema}.jobs SET {change}".encode())
        before = connection.execute(f"SELECT * FROM {schema}.jobs".encode()).fetchall()
        with pytest.raises(Corrupt):
            await queue.get("job")
        with pytest.raises(Corrupt):
            await queue.cancel("job")
        assert connection.execute(f"SELECT * FROM {schema}.jobs".encode()).fetchall() == before


# Who is in whose way


async def test_a_job_that_another_transaction_holds_is_passed_over(
    queue: Queue, database: str, schema: str
) -> None:
    await queue.enqueue_many([NewJob("work", id=id) for id in ("first", "second")])
    with psycopg.connect(database) as other:
        other.execute(f"SELECT FROM {schema}.jobs WHERE id = 'first' FOR UPDATE".encode())
        assert (await claim_one(queue)).id == "second"
    assert (await claim_one(queue)).id == "first"


async def test_two_that_wait_for_each_other_lose_no_command(
    queue: Queue, database: str, schema: str
) -> None:
    """A foreign transaction and a turn each hold what the other wants; the server refuses one."""
    await queue.enqueue_many([NewJob("work", id=id) for id in ("a", "b")])
    with psycopg.connect(database) as other:
        other.execute("SET deadlock_timeout = '1h'")  # so that it is the turn that is refused
        lock = f"SELECT FROM {schema}.jobs WHERE id = %s FOR UPDATE".encode()
        other.execute(lock, ["b"])
        cancelling = asyncio.gather(queue.cancel(["a", "b"]))
        await asyncio.to_thread(_wait_for_a_waiter, database)
        await asyncio.to_thread(other.execute, lock, ["a"])
        other.commit()
    [outcomes] = await cancelling
    assert outcomes == ["cancelled", "cancelled"]


def _wait_for_a_waiter(database: str) -> None:
    with connected(database) as connection:
        waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"
        while connection.execute(waits).fetchone() == (0,):
            pass


async def test_events_wait_for_turns_under_way_and_for_nobody_else(
    queue: Queue, database: str, schema: str
) -> None:
    """A turn that has a number may still write it: until then nothing above is readable."""
    with psycopg.connect(database) as stranger, psycopg.connect(database) as late:
        stranger.execute("CREATE TEMPORARY TABLE busy ()")
        late.execute(Statements(schema).finding["begin_within"].encode())
        late.execute(f"SELECT nextval('{schema}.numbers')".encode())
        await queue.enqueue("work", id="young")
        store = queue._backend._store  # type: ignore[attr-defined]
        head = await store.head()
        assert (head.commit, head.readable) == (2, 0)
        assert await store.commits(0, 9) == []
        assert (await claim_one(queue)).id == "young", "work does not wait"
        late.rollback()
        head = await store.head()
        assert (head.commit, head.readable) == (3, 3)
        assert [number for number, _ in await store.commits(0, 9)] == [2, 3]


async def test_who_waits_in_another_handle_is_woken_by_a_commit(url: str, queue: Queue) -> None:
    async with penstock.open(url, fsync=False) as other, asyncio.timeout(20):
        waiting = asyncio.gather(other.claim(wait_seconds=60))
        await queue.enqueue("work", id="news")
        [[job]] = await waiting
    assert job.id == "news"


# How it goes by its indexes


async def test_every_lookup_of_a_deep_queue_goes_by_an_index(
    queue: Queue, database: str, schema: str
) -> None:
    await queue.enqueue_many([NewJob("work", queue=f"q{n % LANES}") for n in range(9)])
    sql = Statements(schema)
    with psycopg.connect(database) as connection:
        for name, value in databases.SESSION.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        fill = (
            f"INSERT INTO {schema}.jobs SELECT 'default', n::text, n, 1, 'q' || n % {LANES},"
            " 'work', NULL, 0, 'pending', n, NULL, NULL, ''"
            f" FROM generate_series(1, {BACKLOG}) AS n"
        )
        connection.execute(fill.encode())
        for statements in (sql.locking, sql.looking, sql.writing):
            for name, statement in statements.items():
                for step in _plan(connection, statement):
                    assert "Seq Scan on jobs" not in step, name
        plan = _plan(connection, sql.locking["candidates"], "ANALYZE, TIMING OFF, SUMMARY OFF")
        rows = [
            float(count) for step in plan for count in re.findall(r"actual rows=([\d.]+)", step)
        ]
        # One more, which says how many were seen.
        assert rows[0] == COUNT + 1
        assert max(rows) <= LANES * COUNT, "it read or sorted more than it was asked for"


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("by_id", "jobs_pkey"),
        ("update", "jobs_pkey"),
        ("remove", "jobs_pkey"),
        ("by_claim", "claimed"),
        ("candidates_of_all", "first"),
        ("candidates_of_types", "ready"),
        ("candidates_of_queues", "pending"),
        ("lease_end", "leases"),
    ],
)
async def test_a_plan_that_was_made_while_there_was_nothing_is_good_for_more(
    queue: Queue, database: str, schema: str, name: str, index: str
) -> None:
    """Each is made once per connection, and what it goes by then it goes by for hours."""
    sql = Statements(schema)
    statement = {**sql.locking, **sql.looking, **sql.writing}[name]
    with psycopg.connect(database) as connection:
        for setting, value in databases.SESSION.items():
            connection.execute("SELECT set_config(%s, %s, false)", (setting, value))
        steps = _plan(connection, statement)
    found = {one[1] for step in steps if (one := re.search(r"using (\w+) on jobs", step))}
    assert found == {index}, steps


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("candidates_of_all", {}),
        ("candidates_of_types", {"types": ["rare"]}),
        ("candidates_of_queues", {"queues": ["q1"]}),
        ("candidates_of_queues", {"queues": ["q1"], "types": ["rare", "work"]}),
        ("due_of_all", {}),
        ("due_of_types", {"types": ["rare"]}),
        ("due_of_queues", {"queues": ["q1"]}),
    ],
)
async def test_a_claim_reads_nothing_of_what_it_does_not_ask_for(
    queue: Queue, database: str, schema: str, name: str, asked: dict[str, Any]
) -> None:
    """Each job is in a queue of its own, and those of the other type are all ahead."""
    await queue.enqueue("rare", queue="q1")
    sql = Statements(schema)
    statement = {**sql.locking, **sql.looking}[name]
    with psycopg.connect(database) as connection:
        for setting, value in databases.SESSION.items():
            connection.execute("SELECT set_config(%s, %s, false)", (setting, value))
        fill = (
            f"INSERT INTO {schema}.jobs SELECT 'default', n::text, n, 1, 'q' || n,"
            " 'work', NULL, 0, 'pending', n, NULL, NULL, ''"
            f" FROM generate_series(1, {BACKLOG}) AS n"
        )
        connection.execute(fill.encode())
        how = "ANALYZE, TIMING OFF, SUMMARY OFF"
        steps = _plan(connection, statement, how, count=1, **asked)
    seen = [re.search(r"actual rows=([\d.]+) loops=(\d+)", step) for step in steps]
    read = sum(float(one[1]) * int(one[2]) for one in seen if one is not None)
    removed = [re.search(r"Rows Removed by .*: (\d+)", step) for step in steps]
    assert read <= ROWS_OF_A_CLAIM_MAX, steps
    assert sum(int(one[1]) for one in removed if one is not None) <= ROWS_OF_A_CLAIM_MAX, steps


async def test_stats_read_nothing_of_the_jobs(queue: Queue, database: str, schema: str) -> None:
    """All of them are due, but for some of another minute than this one."""
    await queue.enqueue("work")
    statement = Statements(schema).looking["waiting"]
    now = 1_000_000.0
    with psycopg.connect(database) as connection:
        for setting, value in databases.SESSION.items():
            connection.execute("SELECT set_config(%s, %s, false)", (setting, value))
        fill = (
            f"INSERT INTO {schema}.jobs SELECT 'default', n::text, n, 1, 'q', 'work', NULL, 0,"
            f" 'pending', CASE WHEN n % 2 = 0 THEN n ELSE {now} + 60 + n END, NULL, NULL, ''"
            " FROM generate_series(1, 20000) AS n"
        )
        connection.execute(fill.encode())
        how = "ANALYZE, TIMING OFF, SUMMARY OFF"
        asked = {"at": now, "minute": now // 60, "next_minute_at": now + 60}
        steps = _plan(connection, statement, how, **asked)
    seen = [re.search(r"actual rows=([\d.]+) loops=(\d+)", step) for step in steps]
    read = sum(float(one[1]) * int(one[2]) for one in seen if one is not None)
    assert read <= ROWS_OF_A_CLAIM_MAX, steps


def _plan(
    connection: psycopg.Connection[Any], statement: str, how: str = "COSTS ON", **asked: Any
) -> list[str]:
    named = dict.fromkeys(re.findall(r"%\((\w+)\)", statement))
    given = {name: {**ASKED, **asked}.get(name) for name in named}
    explained = connection.execute(f"EXPLAIN ({how}) {statement}".encode(), given or None)
    return [row[0] for row in explained]


ROWS_OF_A_CLAIM_MAX = 100
"""Over all steps of a plan together."""

ASKED = {
    "tenant": "default", "due_by": 9e9, "count": COUNT, "paused": [], "tenants": ["default"],
    "ids": ["1"], "claims": ["c"], "shelves": ["running"], "untils": [9e9], "leasts": [0],
    "mosts": [100],
}  # fmt: skip
