"""Counters that turns keep are what a recount finds, whatever was done and by how many at once."""

from __future__ import annotations

import asyncio
import random
import tempfile
from contextlib import AsyncExitStack

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock
from penstock import NewJob, Queue
from penstock.engines.records.postgres.store import PostgresStore
from penstock.engines.records.sqlite.store import SqliteStore
from penstock.insights.stored_counters import check_counters
from penstock.ports.records import RecordStore
from penstock.runtime.services import Services
from penstock.testing.clock import FakeClock
from penstock.testing.factories import seeded_services
from tests.engines.scripts import STEPS, Actor, Step
from tests.records.postgres_stores import new_schema
from tests.servers.postgres import Postgres

DELAYS_SECONDS = (0.0, 30.0, 100.0, 4_000.0)
ROUNDS = 12


async def require_counted(store: RecordStore) -> None:
    check = await check_counters(store)
    assert check.verdict == "ok", check


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(script=st.lists(STEPS, min_size=20, max_size=60))
def test_after_any_script_the_counters_are_those_of_a_recount(script: list[Step]) -> None:
    async def run() -> None:
        clock = FakeClock()
        services = seeded_services(1, clock)
        with tempfile.TemporaryDirectory() as folder:
            async with AsyncExitStack() as stack:
                stores = [
                    SqliteStore(f"{folder}/queue.db", services, fsync=False) for _ in range(3)
                ]
                queues = [
                    await stack.enter_async_context(penstock.open(store=store, services=services))
                    for store in stores
                ]
                actor = Actor(queues, clock)
                for first in range(0, len(script), 4):
                    await actor.run(script[first : first + 4])
                    await require_counted(stores[0])

    asyncio.run(run())


@pytest.mark.xdist_group("postgres")
async def test_turns_at_the_same_time_count_right_on_postgres(postgres_server: Postgres) -> None:
    url, schema = postgres_server.new_database(), new_schema()
    stores = [PostgresStore(url, Services(), schema=schema, fsync=False) for _ in range(3)]
    async with AsyncExitStack() as stack:
        queues = [await stack.enter_async_context(penstock.open(store=store)) for store in stores]
        await queues[0].configure(result_ttl_seconds=0)
        await asyncio.gather(
            *(_toil(queue, random.Random(number)) for number, queue in enumerate(queues * 2))
        )
        await require_counted(stores[0])
        assert {one.pending > one.scheduled > 0 for one in (await queues[0].stats()).queues}


async def _toil(queue: Queue, luck: random.Random) -> None:
    for _ in range(ROUNDS):
        jobs = [
            NewJob(
                luck.choice("st"),
                id=str(luck.randrange(200)),
                queue=luck.choice("xy"),
                delay_seconds=luck.choice(DELAYS_SECONDS),
            )
            for _ in range(10)
        ]
        await queue.enqueue_many(jobs)
        claimed = await queue.claim(4)
        await queue.ack(claimed[:2])
        await queue.snooze(claimed[2:3], luck.choice(DELAYS_SECONDS))
        await queue.nack(claimed[3:], "no", retry=luck.random() < 0.5)
        await queue.cancel([str(luck.randrange(200)) for _ in range(3)])
