"""Servers that take no writes still answer whoever only looks."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

import penstock
from penstock.client.queue import Queue
from penstock.engines.records.postgres.store import PostgresStore
from penstock.errors import PenstockError
from penstock.runtime.services import Services
from penstock.testing.conformance.backend.steps import found, ids, story
from tests.records.postgres_stores import new_schema
from tests.servers.postgres import Postgres
from tests.servers.redis import own_redis


async def fill(queue: Queue) -> None:
    await queue.enqueue("work", id="job")
    await queue.claim()
    await queue.enqueue("work", id="other", key="k")


async def look_at_everything(queue: Queue) -> None:
    assert (await found(queue, "job")).state.value == "running"
    assert sorted(await ids(queue)) == ["job", "other"]
    assert (await queue.stats()).jobs == 2
    assert await story(queue, "job") == ["enqueued", "claimed"]
    assert len([event async for event in queue.events("beginning", follow=False)]) == 3
    with pytest.raises(PenstockError):
        await queue.enqueue("work")


@pytest.mark.parametrize(
    ("setting", "value"), [("min-replicas-to-write", "1"), ("maxmemory", "1")], ids=str
)
async def test_a_redis_that_takes_no_writes_is_read(
    tmp_path: Path, setting: str, value: str
) -> None:
    with own_redis(tmp_path) as server:
        async with penstock.open(server.url) as queue:
            await fill(queue)
        with redis.Redis.from_url(server.url) as admin:
            admin.config_set(setting, value)
        async with penstock.open(server.url) as queue:
            await look_at_everything(queue)


@pytest.mark.xdist_group("postgres")
async def test_a_postgresql_that_takes_no_writes_is_read(postgres_server: Postgres) -> None:
    database, schema = postgres_server.new_database(), new_schema()
    async with penstock.open(store=PostgresStore(database, Services(), schema=schema)) as queue:
        await fill(queue)
    mark = "&" if "?" in database else "?"
    read_only = f"{database}{mark}options=-c%20default_transaction_read_only%3Don"
    async with penstock.open(store=PostgresStore(read_only, Services(), schema=schema)) as queue:
        await look_at_everything(queue)
