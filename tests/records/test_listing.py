"""What a page of a list costs: in rows, calls and requests, since times are for the benchmark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import redis

import penstock
from penstock import NewJob, Queue
from penstock.engines.records.postgres import database as databases
from penstock.engines.records.postgres.statements import Statements
from penstock.kernel.lives import Lives
from penstock.ports.listing import LOOKED_AT_MAX
from penstock.stores.layers.counting import Counting
from penstock.stores.memory import MemoryStore
from tests.records.postgres_stores import new_schema
from tests.servers.postgres import Postgres
from tests.servers.redis import OwnRedis, own_redis
from tests.tasks_layout.worlds import World

PAGE = 20
BACKLOG = 3 * LOOKED_AT_MAX
HOW = "ANALYZE, TIMING OFF, SUMMARY OFF"
LOOKS_BEFORE = 2
"""The time and the head."""
KEYS_PER_PAGE = 10
STEP = 50
"""Values that Redis looks up at once, for a page as small as these."""
CHARTER_GETS = 1
LISTS_PER_SHARD = 2


async def fill(queue: Queue) -> None:
    """Most are pending, some have ended long before them and some behind them."""
    for names in (["first"], [f"{n}" for n in range(BACKLOG)], ["last"]):
        await queue.enqueue_many([NewJob("work", id=name) for name in names])
    await queue.cancel(["first", "last"])


async def first_page(queue: Queue, **filter: Any) -> list[str]:
    return [job.id async for job in queue.jobs(limit=PAGE, **filter)]


@pytest.mark.parametrize("shelves", [["pending", "running", "completed", "dead"], ["dead"]])
async def test_a_page_reads_no_more_rows_of_postgresql_than_it_has(
    postgres_server: Postgres, shelves: list[str]
) -> None:
    database, schema = postgres_server.new_database(), new_schema()
    async with penstock.open(f"{database}?schema={schema}", fsync=False) as queue:
        await fill(queue)
    asked = {
        "tenant": "default", "shelves": shelves, "queue": None, "type": None, "after": 0,
        "until": 10**18, "most": PAGE,
    }  # fmt: skip
    with psycopg.connect(database) as connection:
        for setting, value in databases.SESSION.items():
            connection.execute("SELECT set_config(%s, %s, false)", (setting, value))
        statement = Statements(schema).looking["listing"]
        rows = connection.execute(f"EXPLAIN ({HOW}) {statement}".encode(), asked).fetchall()
    steps = [row[0] for row in rows]
    seen = [re.search(r"actual rows=([\d.]+) loops=(\d+)", step) for step in steps]
    assert sum(float(one[1]) * int(one[2]) for one in seen if one is not None) <= 8 * PAGE, steps
    assert not [step for step in steps if "Seq Scan on jobs" in step or "Removed" in step], steps


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRedis]:
    """One that nobody else asks for anything."""
    with own_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.mark.parametrize(
    ("filter", "pages", "keys"),
    [
        ({}, 1, STEP),
        ({"state": "pending"}, 1, STEP),
        ({"state": "cancelled"}, 1, 2),
        ({"state": "pending", "type": "rare"}, 1, 0),
        ({"type": "rare"}, 1 + BACKLOG // LOOKED_AT_MAX, BACKLOG),
    ],
)
async def test_a_listing_asks_redis_for_no_more_than_it_may(
    own: OwnRedis, filter: dict[str, Any], pages: int, keys: int
) -> None:
    """In scripts that run there, and in keys that those look up."""
    async with penstock.open(f"{own.url}?prefix={uuid4().hex}") as queue:
        await fill(queue)
        with redis.Redis.from_url(own.url) as client:
            client.config_resetstat()
            await first_page(queue, **filter)
            told: Any = client.info("everything")
    assert told["cmdstat_evalsha"]["calls"] <= pages + LOOKS_BEFORE
    assert told["keyspace_hits"] <= keys + KEYS_PER_PAGE * (pages + LOOKS_BEFORE)


async def test_a_listing_asks_a_log_once_whether_there_is_more() -> None:
    store = Counting(MemoryStore())
    async with penstock.open(store=store) as queue:
        await fill(queue)
        before = store.requests
        assert len(await first_page(queue)) == PAGE
        used = store.requests.since(before)
        assert len([job async for job in queue.jobs()]) == BACKLOG + 2
        assert store.requests.since(before).total == 2 * used.total


async def test_a_listing_of_a_log_looks_at_no_more_jobs_than_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[int] = []
    after = Lives.after

    def watched(self: Lives, life: int, until: int, count: int) -> Any:
        looked.append(count)
        return after(self, life, until, count)

    monkeypatch.setattr(Lives, "after", watched)
    async with penstock.open("memory://") as queue:
        await fill(queue)
        await first_page(queue)
        assert looked == [PAGE]
        await first_page(queue, type="rare")
    assert max(looked) == LOOKED_AT_MAX


async def test_a_page_of_tasks_is_a_listing_and_a_get_for_each_job() -> None:
    world = World()
    store = Counting(world.store)
    async with world.open(store) as queue, world.open(tenant="zebra") as zebra:
        for one in (queue, zebra):
            await one.enqueue_many([NewJob("work", id=f"{n}") for n in range(5 * PAGE)])
        before = store.requests
        assert len(await first_page(queue)) == PAGE
        used = store.requests.since(before)
        assert (used.lists, used.gets) == (used.lists, PAGE + CHARTER_GETS)
        assert used.lists <= LISTS_PER_SHARD * 16
        assert used.puts == 0
