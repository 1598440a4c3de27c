"""What a claim finds, and what it reads for it, while others hold rows and old snapshots."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest

import penstock
from penstock import NewJob, Queue
from penstock.engines.records.postgres import steps
from penstock.engines.records.postgres.arrays import know_arrays
from tests.records.postgres_stores import new_schema
from tests.servers.postgres import Postgres

pytestmark = pytest.mark.xdist_group("postgres")

JOBS = 6_000
AT_ONCE = 500
BUFFERS_MAX = 4_000
"""Of a claim of ten; without a start it reads each entry of thousands several times."""


@pytest.fixture(scope="module")
def database(postgres_server: Postgres) -> str:
    return postgres_server.new_database()


@pytest.fixture
def schema() -> str:
    return new_schema()


@pytest.fixture
async def queue(database: str, schema: str) -> AsyncIterator[Queue]:
    async with penstock.open(f"{database}?schema={schema}&fsync=off") as queue:
        yield queue


KINDS: dict[str, Callable[[Queue, int], Any]] = {
    "any": lambda queue, count: queue.claim(count),
    "types": lambda queue, count: queue.claim(count, types=["first", "second"]),
    "queues": lambda queue, count: queue.claim(count, queues=["default"]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("paused", [False, True])
async def test_what_others_have_locked_does_not_use_up_a_claim(
    queue: Queue, database: str, schema: str, kind: str, paused: bool
) -> None:
    await queue.enqueue_many([NewJob("first") for _ in range(3)])
    await queue.enqueue_many([NewJob("second") for _ in range(3)])
    if paused:
        await queue.pause("elsewhere")
    with psycopg.connect(database) as other:
        lock = f"SELECT FROM {schema}.jobs WHERE type = 'first' FOR UPDATE"
        other.execute(lock.encode())
        claimed = await KINDS[kind](queue, 2)
        assert [job.type for job in claimed] == ["second"] * 2
    assert len(await KINDS[kind](queue, 10)) == 4


def counted_buffers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many buffers each search of a claim reads from now on."""
    exchange = steps._exchange
    buffers: list[int] = []

    def count(connection: psycopg.Connection[Any], sent: Any, *, is_ours: bool) -> list[Any]:
        for step in sent:
            if "FOR UPDATE" in step.statement and "due_by" in (step.parameters or {}):
                explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {step.statement}"
                know_arrays(connection)
                cursor = psycopg.Cursor(connection)
                found = cursor.execute(explain.encode(), step.parameters).fetchone()
                assert found is not None
                [told] = found[0] if isinstance(found[0], list) else json.loads(found[0])
                plan = told["Plan"]
                buffers.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
        return exchange(connection, sent, is_ours=is_ours)

    monkeypatch.setattr(steps, "_exchange", count)
    return buffers


LANES: dict[str, Callable[[int], NewJob]] = {
    "pairs": lambda n: NewJob(f"type{n}", queue=f"queue{n}"),
    "types": lambda n: NewJob(f"type{n}"),
    "priorities": lambda n: NewJob("work", priority=n),
}


@pytest.mark.parametrize("kind", LANES)
async def test_a_claim_that_names_nothing_reads_as_much_in_7000_lanes_as_in_one(
    queue: Queue, database: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = 7_000
    async with penstock.open(f"{database}?schema={new_schema()}&fsync=off") as plain:
        await plain.enqueue_many([NewJob("work") for _ in range(jobs)])
        await queue.enqueue_many([LANES[kind](number) for number in range(jobs)])
        buffers = counted_buffers(monkeypatch)
        assert len(await plain.claim()) == 1
        in_one = sum(buffers)
        buffers.clear()
        assert len(await queue.claim()) == 1
        assert 0 < sum(buffers) <= 2 * in_one


async def test_an_old_snapshot_does_not_make_claims_read_what_is_gone(
    queue: Queue, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queue.enqueue_many([NewJob("work") for _ in range(2 * JOBS)])
    with psycopg.connect(database) as report:
        report.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        report.execute("SELECT 1")
        for _ in range(JOBS // AT_ONCE):
            await queue.ack(await queue.claim(AT_ONCE))
        buffers = counted_buffers(monkeypatch)
        for number in range(10):
            assert len(await queue.claim(10)) == 10
            if number == 5:
                # In order all the same: what this handle brings is missed by none of its claims.
                await queue.enqueue("work", id="urgent", priority=-1)
                [urgent] = await queue.claim()
                assert urgent.id == "urgent"
    assert sorted(buffers)[len(buffers) // 2] <= BUFFERS_MAX
