"""What somebody left half done, deleted or altered: it is seen, repaired, and harms nobody else."""

from __future__ import annotations

import asyncio
import logging

import pytest

from penstock import NewJob
from penstock.engines.records.tasks.names import LEASES, READY, TASKS
from penstock.errors import Corrupt, OutcomeUnknown
from penstock.kernel.job import State
from penstock.ports.backend import IndexReport
from penstock.ports.store import Create, Overwrite, PutMode, Written
from penstock.stores.layers.layer import Layer
from penstock.testing.conformance.backend.steps import (
    AT_ONCE,
    claim_one,
    claimed,
    found,
    ids,
    nonzero,
)
from tests.tasks_layout.worlds import World

FULL_INDEX = "every job is in its index"
DEATH_SECONDS = 0.02
CLEAN_INDEX = "index entries stand for jobs"


class Stops(Layer):
    """A store that never answers a put under a prefix: to the others, its process has died."""

    def __init__(self, world: World, prefix: str, *, after: int = 0) -> None:
        super().__init__(world.store)
        self._prefix = prefix
        self._after = after

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        if key.startswith(self._prefix):
            self._after -= 1
            if self._after < 0:
                await asyncio.Event().wait()
        return await super().put(key, data, mode)


async def test_a_pending_job_without_an_entry_gets_one() -> None:
    world = World()
    async with world.open() as queue:
        await queue.enqueue("work", id="job")
        [entry] = await world.keys(READY)
        await world.store.delete(entry)
        assert await queue.claim() == []
        assert FULL_INDEX in await world.troubles()
        assert await queue.repair() == IndexReport(tasks=1, added=1)
        assert await world.keys(READY) == [entry]
        assert (await claim_one(queue)).id == "job"


async def test_a_running_job_without_an_entry_gets_one_and_can_expire() -> None:
    world = World()
    async with world.open() as queue:
        await claimed(queue, id="job", retry=AT_ONCE)
        [entry] = await world.keys(LEASES)
        await world.store.delete(entry)
        await world.clock.advance(60)
        assert await queue.expire() == 0
        assert (await queue.repair()).added == 1
        assert await queue.expire() == 1
        assert (await claim_one(queue)).attempt == 2


async def test_an_old_entry_without_a_task_is_removed_and_a_young_one_is_not() -> None:
    world = World()
    async with world.open() as queue:
        await queue.enqueue("work", id="ghost")
        [task] = await world.keys(TASKS)
        await world.store.delete(task)
        assert (await queue.repair()).removed == 0, "its task may be on the way"
        await world.clock.advance(3600)
        assert CLEAN_INDEX in await world.troubles()
        assert (await queue.repair()).removed == 1
        await queue.close()
    assert await world.keys(READY) == []


async def test_a_stale_entry_is_removed_by_whoever_comes_upon_it() -> None:
    world = World()
    async with world.open() as queue:
        await queue.enqueue("work", id="job")
        [entry] = await world.keys(READY)
        await queue.cancel("job")
    await world.store.put(entry, b"", Overwrite())
    async with world.open() as queue:
        assert await queue.claim() == []
    assert await world.keys(READY) == []


async def test_the_entry_of_a_lease_that_was_extended_is_filed_anew() -> None:
    world = World()
    async with world.open() as queue:
        job = await claimed(queue, id="job")
        [before] = await world.keys(LEASES)
        await queue.heartbeat(job, lease_seconds=600)
        assert await world.keys(LEASES) == [before], "a heartbeat moves nothing"
        await world.clock.advance(60)
        assert await queue.expire() == 0
        await queue.ack(job)
    assert len(await world.keys(LEASES)) == 1
    async with world.open() as queue:
        await world.clock.advance(900)
        await queue.expire()
    assert await world.keys(LEASES) == []


@pytest.mark.parametrize(
    ("prefix", "after", "is_there"),
    [("ready/", 0, False), ("tasks/", 0, False)],
)
async def test_who_dies_while_enqueuing_leaves_a_job_or_none(
    prefix: str, after: int, is_there: bool
) -> None:
    world = World()
    await _die_enqueuing(world, Stops(world, prefix, after=after), NewJob("work", id="job"))
    async with world.open() as queue:
        assert (await queue.get("job") is not None) == is_there
        assert (await queue.enqueue("work", id="job")).status == "queued"
        assert (await claim_one(queue)).id == "job"


@pytest.mark.parametrize(
    ("prefix", "after", "is_there"),
    [
        ("tasks/", 0, False),  # nothing is stored
        ("keys/", 0, False),  # an opening that no key names
        ("ready/", 0, True),  # the key names it: it is true, and not pending yet
        ("tasks/", 1, True),
    ],
)
async def test_who_dies_while_taking_a_key_has_it_or_has_not(
    prefix: str, after: int, is_there: bool
) -> None:
    world = World()
    job = NewJob("work", id="job", key="k", unique_seconds=60)
    await _die_enqueuing(world, Stops(world, prefix, after=after), job)
    async with world.open() as queue:
        again = await queue.enqueue("work", id="another", key="k")
        if is_there:
            assert (again.status, again.id) == ("duplicate", "job")
        else:
            assert (again.status, again.id) == ("queued", "another")
        assert await ids(queue) == [again.id]
        await world.clock.advance(61)
        report = await queue.repair()
        assert report.settled == (prefix == "keys/")
        assert (await claim_one(queue)).id == again.id
    assert await world.troubles() == {}


async def test_the_same_enqueue_again_takes_over_what_was_left_half_done() -> None:
    world = World()
    job = NewJob("work", id="job", key="k")
    await _die_enqueuing(world, Stops(world, "keys/"), job)
    async with world.open() as queue:
        [receipt] = await queue.enqueue_many([job])
        assert receipt.status == "queued"  # type: ignore[union-attr]
        assert (await claim_one(queue)).key == "k"


async def test_an_altered_task_is_named_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    async with world.open() as queue:
        await queue.enqueue("work", id="altered")
        await queue.enqueue("work", id="fine")
        key = await _alter(world, "altered")
        with pytest.raises(Corrupt) as raised:
            await queue.get("altered")
        assert raised.value.key == key
        assert "Restore the object or run doctor" in str(raised.value)
        with pytest.raises(Corrupt):
            await queue.cancel("altered")
        outcomes = await queue.enqueue_many([NewJob("work", id="altered"), NewJob("work", id="b")])
        assert isinstance(outcomes[0], Corrupt)
        with caplog.at_level(logging.WARNING):
            assert sorted(job.id for job in await queue.claim(9)) == ["b", "fine"]
            assert sorted(await ids(queue)) == ["b", "fine"]
        assert key in caplog.text
        assert nonzero((await queue.stats()).totals) == {State.RUNNING: 2}
        assert (await queue.repair()).removed == 0, "it may be restored"
    assert key in (await world.troubles())["tasks"]


async def test_a_restored_task_goes_on_where_it_was() -> None:
    world = World()
    async with world.open() as queue:
        await queue.enqueue("work", id="job")
        [key] = await world.keys(TASKS)
        whole = (await world.store.get(key)).data
        await _alter(world, "job")
        assert await queue.claim() == []
        await world.store.put(key, whole, Overwrite())
        await world.clock.advance(61)
        assert (await claim_one(queue)).id == "job"


async def test_a_foreign_object_in_an_index_is_left_alone() -> None:
    world = World()
    async with world.open() as queue:
        await queue.enqueue("work", id="job")
        await world.store.put("ready/0/000000001/notes.txt", b"mine", Create())
        assert (await claim_one(queue)).id == "job"
        await queue.repair()
    assert await world.keys(READY) == ["ready/0/000000001/notes.txt"]


async def test_a_doctor_finds_nothing_wrong_with_a_busy_queue() -> None:
    world = World()
    async with world.open() as queue:
        for n in range(20):
            await queue.enqueue("work", id=f"job-{n}", key=f"k{n}", retry=AT_ONCE)
        for job in await queue.claim(12):
            await queue.heartbeat(job, progress=0.5)
            if int(job.id[4:]) % 2:
                await queue.nack(job, "boom")
        await queue.cancel("job-19")
        await queue.replay("job-19")
        assert (await found(queue, "job-19")).state is State.PENDING
    assert await world.troubles() == {}
    assert {"keys name their holders", "jobs are their events"} <= {
        check.check for check in await world.checks()
    }


async def _die_enqueuing(world: World, store: Stops, job: NewJob) -> None:
    async with world.open(store, outcome_seconds_max=DEATH_SECONDS) as queue:
        with pytest.raises(OutcomeUnknown):
            await queue.enqueue_many([job])


async def _alter(world: World, id: str) -> str:
    [key] = [key for key in await world.keys(TASKS) if id in key]
    data = (await world.store.get(key)).data
    await world.store.put(key, data.replace(b'"work"', b'"play"'), Overwrite())
    return key
