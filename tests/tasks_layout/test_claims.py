"""Where claims look: shards, index modes, long backlogs; and what a job costs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import penstock
from penstock import NewJob
from penstock.engines.records.tasks import claims, index
from penstock.engines.records.tasks.names import (
    LEASES,
    READY,
    SHARDS,
    Ready,
    shard_of,
    shards_in,
    tags,
    task_key,
    task_name,
)
from penstock.errors import InvalidURL
from penstock.kernel.commands import Claim
from penstock.ports.store import Create, StoredObject
from penstock.stores.layers.counting import Counting
from penstock.stores.layers.layer import Layer
from penstock.testing.conformance.backend.steps import claim_one, claimed, ids
from tests.tasks_layout.worlds import World

REQUESTS_PER_JOB = 10
"""Three to enqueue and five to claim (one each for the charter), two to ack."""
REQUESTS_PER_KEYED_JOB = 13


@pytest.mark.parametrize(
    ("said", "shards"),
    [(None, SHARDS), ("0-7", "01234567"), ("f", "f"), ("0,4,C", "04c"), ("2-3,2", "23")],
)
def test_shards_can_be_named(said: str | None, shards: str) -> None:
    assert shards_in(said) == shards


@pytest.mark.parametrize("said", ["", "g", "7-0", "0-", "00", "0-ff"])
def test_shards_that_are_none_are_refused(said: str) -> None:
    with pytest.raises(InvalidURL, match="hex digits"):
        penstock.open("file:///tmp/queue", layout="tasks", shards=said)


def test_an_unknown_index_mode_is_refused() -> None:
    with pytest.raises(InvalidURL, match="index-only, hybrid, scan"):
        penstock.open("file:///tmp/queue?layout=tasks&index=guess")


@pytest.mark.parametrize("mode", ["index-only", "scan"])
async def test_workers_of_half_the_shards_each_share_all_jobs(mode: str) -> None:
    world = World()
    async with (
        world.open(shards="0-7", index=mode) as low,
        world.open(shards="8-f", index=mode) as high,
    ):
        await low.enqueue_many([NewJob("work", id=f"job-{n}") for n in range(60)])
        for queue, shards in ((low, "01234567"), (high, "89abcdef")):
            jobs = await queue.claim(60)
            assert {shard_of(task_name("default", job.id)) for job in jobs} <= set(shards)
            await queue.ack(jobs)
        assert await ids(low, state="pending") == []


@pytest.mark.parametrize(("mode", "finds"), [("index-only", 0), ("hybrid", 1), ("scan", 1)])
async def test_a_job_without_an_entry_is_found_by_those_who_scan(mode: str, finds: int) -> None:
    world = World()
    async with world.open(index=mode) as queue:
        await queue.enqueue("work", id="job")
        [entry] = await world.keys(READY)
        await world.store.delete(entry)
        assert len(await queue.claim()) == finds


async def test_who_only_scans_does_not_look_at_the_index() -> None:
    world = World()
    async with world.open(index="scan") as queue:
        await queue.enqueue_many([NewJob("work", id=str(n), priority=-n) for n in range(5)])
        for key in await world.keys(READY):
            await world.store.delete(key)
        assert [job.id for job in await queue.claim(3)] == ["4", "3", "2"]
        await queue.cancel("0")
        assert (await claim_one(queue)).id == "1"


async def test_a_backlog_longer_than_a_look_is_walked_through_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(index, "WHOLE_ENTRIES_MAX", 50)
    monkeypatch.setattr(index, "PAGE_ENTRIES", 4)
    world = World()
    async with world.open() as queue:
        await queue.enqueue_many(
            [NewJob("work", id=f"{n}", queue="many" if n % 10 else "few") for n in range(300)]
        )
        assert len(await queue.claim(100, queues=["few"])) == 30, "however far behind they are"
        done: list[str] = []
        while jobs := await queue.claim(7):
            await queue.ack(jobs)
            done += [job.id for job in jobs]
        assert len(done) == len(set(done)) == 270


async def test_a_claim_looks_through_a_limited_number_of_jobs_that_it_does_not_want(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next ones go on from there, so that it is found in the end."""
    monkeypatch.setattr(index, "WHOLE_ENTRIES_MAX", 50)
    monkeypatch.setattr(index, "LISTED_PER_PAGE_MAX", 2)
    monkeypatch.setattr(index, "SEARCHES_PER_CLAIM_MAX", 3)
    looks: list[str] = []
    look = index.Index.look

    async def counted(self: index.Index, of: str, *arguments: Any) -> list[index.Page]:
        looks.append(of)
        return await look(self, of, *arguments)

    monkeypatch.setattr(index.Index, "look", counted)
    async with World().open() as queue:
        assert queue.capabilities.selection == "bounded"
        await queue.enqueue_many([NewJob("other") for n in range(600)])
        await queue.enqueue("rare", id="rare")
        found: list[str] = []
        for _ in range(30):
            looks.clear()
            found += [job.id for job in await queue.claim(1, types=["rare"])]
            assert looks.count(READY) <= 3
        assert found == ["rare"]


async def test_many_workers_that_race_get_each_job_once() -> None:
    world = World()
    async with world.open() as first, world.open() as second, world.open() as third:
        await first.enqueue_many([NewJob("work", id=str(n)) for n in range(150)])
        done: list[str] = []

        async def work(queue: penstock.Queue) -> None:
            while jobs := await queue.claim(2):
                done.extend(job.id for job in jobs)
                await queue.ack(jobs)

        await asyncio.gather(*(work(queue) for queue in (first, second, third) * 4))
        assert len(done) == len(set(done)) == 150


@pytest.mark.parametrize(
    ("keyed", "requests"), [(False, REQUESTS_PER_JOB), (True, REQUESTS_PER_KEYED_JOB)]
)
@pytest.mark.parametrize("seconds", [0, 10], ids=["right away", "later"])
async def test_a_job_costs_so_many_requests_listings_aside(
    keyed: bool, requests: int, seconds: float
) -> None:
    world = World()
    store = Counting(world.store)
    async with world.open(store) as queue:
        # By the first command the time is compared, and noted.
        await queue.enqueue("other")
        before = store.requests
        for n in range(20):
            await queue.enqueue("work", id=str(n), key=f"k{n}" if keyed else None)
        used = [store.requests.since(before)]
        await world.clock.advance(seconds)
        await queue.expire()
        # Who was idle reads the settings once more.
        await queue.get("other")
        before = store.requests
        for _ in range(20):
            await queue.ack(await claim_one(queue, types=["work"]))
    used.append(store.requests.since(before))
    assert sum(one.total - one.lists for one in used) / 20 == requests


async def test_an_idle_look_is_one_listing() -> None:
    world = World()
    store = Counting(world.store)
    async with world.open(store) as queue:
        await queue.claim()
        before = store.requests
        await queue.wait_for_work(timeout_seconds=0.01)
        assert store.requests.since(before).total == 1


async def test_what_another_process_pauses_or_resumes_holds_for_the_next_claim() -> None:
    world = World()
    store = Counting(world.store)
    async with world.open(store) as queue, world.open() as other:
        await queue.enqueue_many([NewJob("work", id=str(n)) for n in range(50)])
        await other.pause("default")
        before = store.requests
        assert await queue.claim() == []
        assert store.requests.since(before).total < 12, "one task was read, and not all of them"
        assert await world.keys(LEASES) == [], "it was announced, and is not to come"
        await other.resume("default")
        assert len(await queue.claim(50)) == 50
    assert await world.troubles() == {}


async def test_a_claim_that_is_asked_again_reads_no_backlog() -> None:
    world = World()
    store = Counting(world.store)
    async with world.open(store) as queue:
        await queue.enqueue_many([NewJob("work", id=str(n)) for n in range(50)])
        claim = Claim("default", "secret", 1, 30, None, None, None)
        given = await queue._backend.execute(claim)
        before = store.requests
        assert await queue._backend.execute(claim) == given
        assert store.requests.since(before).total < 12
    assert await world.troubles() == {}


class Noting(Layer):
    """Notes what is read."""

    def __init__(self, world: World) -> None:
        super().__init__(world.store)
        self.read: list[str] = []

    async def get(self, key: str) -> StoredObject:
        self.read.append(key)
        return await super().get(key)


async def test_an_entry_whose_job_never_came_is_not_read_with_every_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claims, "ANNOUNCED_SECONDS", 60.0)
    world = World()
    store, name = Noting(world), task_name("default", "job")
    async with world.open(store) as queue:
        await queue.ack(await claimed(queue, id="job"))
        never = Ready(0, world.clock.now(), 2**62, tags("default", "work"), name)
        await world.store.put(never.key, b"", Create())
        store.read.clear()
        for _ in range(5):
            assert await queue.claim() == []
            await world.clock.advance(2)
        assert store.read.count(task_key(name)) == 1
