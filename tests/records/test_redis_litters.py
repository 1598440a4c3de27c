"""The order of lives in Redis: records in litters, which are strings of ids."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
import redis

import penstock
from penstock.engines.records.redis import reading
from penstock.engines.records.redis.connection import Connection
from penstock.engines.records.redis.store import RedisStore
from penstock.engines.records.redis.writing import LIVES_TOGETHER
from penstock.kernel.events import position_of
from penstock.ports.listing import PageAsked
from penstock.ports.records import Change, Found, Need, Put, Removal
from penstock.runtime.services import Services
from penstock.testing.conformance.record_steps import a_change, a_record
from tests.servers.redis import Redis

SHELVES = ["pending"]
LAST_LIFE = 10**18 - 1
WRITES_SECONDS_MAX = 60.0


@pytest.fixture
def prefix() -> str:
    return uuid4().hex


@pytest.fixture
async def store(
    redis_server: Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RedisStore]:
    # So that a list always walks, and a page ends with the litter that it began with.
    monkeypatch.setattr(reading, "LOOKED_AT_MAX", 1)
    store = RedisStore(redis_server.url, prefix, Services())
    await store.open()
    yield store
    await store.close()


class HeldWrites:
    """Turns that have found something and do not write before they are told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, store: RedisStore) -> None:
        self._store = store
        self._come: asyncio.Queue[asyncio.Future[None]] = asyncio.Queue()
        run_once = Connection.run_once

        async def run_when_told(
            connection: Connection, name: str, *arguments: Any, adds: bool = False
        ) -> Any:
            if name == "write":
                told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._come.put_nowait(told)
                await told
            return await run_once(connection, name, *arguments, adds=adds)

        monkeypatch.setattr(Connection, "run_once", run_when_told)

    async def begin(self, births: int) -> HeldTurn:
        """A turn that has its number, in which so many records begin to live."""
        born: dict[str, int] = {}

        def decide(found: Found) -> Change:
            lives = [position_of(found.commit, n) for n in range(births)]
            born.update((f"id-{life}", life) for life in lives)
            puts = [Put(a_record(id, life, body=id.encode()), None) for id, life in born.items()]
            return a_change(found.commit, puts=puts)

        task = asyncio.create_task(self._store.turn(lambda head: Need(), decide, is_read=False))
        async with asyncio.timeout(WRITES_SECONDS_MAX):
            return HeldTurn(task, await self._come.get(), born)

    async def remove(self, gone: dict[str, int], versions: dict[str, int]) -> None:
        removals = [Removal("default", id, life, versions[id]) for id, life in gone.items()]

        def decide(found: Found) -> Change:
            return a_change(found.commit, removals=removals)

        ids = [("default", id) for id in gone]
        task = asyncio.create_task(
            self._store.turn(lambda head: Need(ids=ids), decide, is_read=False)
        )
        async with asyncio.timeout(WRITES_SECONDS_MAX):
            (await self._come.get()).set_result(None)
            assert await task


class HeldTurn:
    def __init__(
        self, task: asyncio.Task[bool], told: asyncio.Future[None], born: dict[str, int]
    ) -> None:
        self._task = task
        self._told = told
        self.born = born

    async def write(self) -> dict[str, int]:
        self._told.set_result(None)
        assert await self._task
        return self.born


async def listed(store: RedisStore) -> list[str]:
    found: list[str] = []
    after: int | None = 0
    while after is not None:
        page = await store.listing(PageAsked("default", SHELVES, None, None, after, LAST_LIFE, 20))
        found += [body.decode() for body in page.bodies]
        after = page.reached
    return found


def litters_in(redis_server: Redis, prefix: str) -> list[int]:
    """How many ids each has."""
    with redis.Redis.from_url(redis_server.url) as client:
        names: Any = list(client.scan_iter(f"{{{prefix}}}/lives/default/*", count=1_000))
        return [client.get(name).strip(b"/").count(b"/") + 1 for name in names]


async def test_litters_stay_small_and_in_order_whichever_turn_is_written_first(
    store: RedisStore, redis_server: Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = HeldWrites(monkeypatch, store)
    under_way = [await turns.begin(births) for births in (1, 3, 170, 2, 120, 1, 60)]
    born: dict[str, int] = {}
    for place in (5, 1, 3, 6, 2, 0, 4):
        born |= await under_way[place].write()
    assert await listed(store) == sorted(born, key=born.__getitem__)
    assert max(litters_in(redis_server, prefix)) <= LIVES_TOGETHER


@pytest.mark.parametrize("seed", range(5))
async def test_a_list_has_all_that_live_whatever_came_and_went_before(
    store: RedisStore,
    redis_server: Redis,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    luck = random.Random(seed)
    turns, live, versions = HeldWrites(monkeypatch, store), dict[str, int](), dict[str, int]()
    for _ in range(12):
        under_way = [await turns.begin(luck.choice((1, 2, 30, 130))) for _ in range(3)]
        luck.shuffle(under_way)
        for turn in under_way:
            born = await turn.write()
            live |= born
            versions |= {id: life // position_of(1, 0) for id, life in born.items()}
        ids = luck.sample(sorted(live), luck.randint(0, len(live)))
        await turns.remove({id: live.pop(id) for id in ids}, versions)
        assert await listed(store) == sorted(live, key=live.__getitem__)
    await turns.remove(live, versions)
    assert await listed(store) == []
    assert litters_in(redis_server, prefix) == []


async def test_a_claim_that_has_nothing_any_more_leaves_nothing(
    redis_server: Redis, prefix: str, store: RedisStore
) -> None:
    with redis.Redis.from_url(redis_server.url) as client:
        async with penstock.open(f"{redis_server.url}?prefix={prefix}") as queue:
            for _ in range(3):
                await queue.enqueue("work")
            claimed = await queue.claim(3)
            [name] = client.scan_iter(f"{{{prefix}}}/claim/*", count=1_000)
            for job in claimed:
                assert client.exists(name)
                await queue.ack(job)
            assert not client.exists(name)
