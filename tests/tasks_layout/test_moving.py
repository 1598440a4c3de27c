"""A queue of many objects leaves, or is filled, while those who know nothing of it go on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import pytest
from msgspec.structs import replace

import penstock
from penstock import NewJob, Queue
from penstock.engines.calibration import CommitClock
from penstock.engines.records.tasks.charter import CharterStore
from penstock.engines.records.tasks.decisions import Decider
from penstock.engines.records.tasks.names import CHARTER, KEYS, READY, TASKS
from penstock.engines.records.tasks.positions import Positions
from penstock.errors import BeingFilled, Moved, OutcomeUnknown, StoreDenied
from penstock.kernel.commands import Adopt, BeginFilling, EndFilling, MoveQueue, ReopenQueue
from penstock.kernel.events import SYSTEM_TENANT, Event
from penstock.kernel.job import Job, State
from penstock.kernel.settings import DEFAULT_SETTINGS
from penstock.migration.migration import End, Migration
from penstock.ports.store import Entry, ObjectStore, PutMode, StoredObject, Written
from penstock.stores.layers.layer import Layer
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.moving import pending
from penstock.testing.conformance.backend.steps import claim_one, claimed, found, ids
from penstock.testing.factories import seeded_services
from penstock.wire.task import decode_task
from tests.tasks_layout.worlds import World

ELSEWHERE = "s3://elsewhere/queue"
MOVE = MoveQueue(SYSTEM_TENANT, "m1", ELSEWHERE)
FILL = BeginFilling(SYSTEM_TENANT, "m1", ELSEWHERE, 2e9)
PUTS_MAX = 100
MOVES = 12
NUMBERS_END = 2**63
"""What the databases that a queue may move to count as an integer ends here."""
OPEN = EndFilling(SYSTEM_TENANT, "m1", 0, "", 0, DEFAULT_SETTINGS, {}, {}, (), {})


class Gate:
    """Holds the next request of one kind up, until it is let through."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.reached = asyncio.Event()
        self._opened = asyncio.Event()

    def open(self) -> None:
        self._opened.set()

    async def pass_by(self, key: str) -> None:
        if key.startswith(self.prefix) and not self.reached.is_set():
            self.reached.set()
            await self._opened.wait()


class Gated(Layer):
    """A slow connection: each request, or the answer to a get, takes as long as it has to."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.put_gate: Gate | None = None
        self.list_gate: Gate | None = None
        self.get_gate: Gate | None = None
        self.got_gate: Gate | None = None

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        if self.put_gate is not None:
            await self.put_gate.pass_by(key)
        return await self._store.put(key, data, mode)

    async def get(self, key: str) -> StoredObject:
        if self.get_gate is not None:
            await self.get_gate.pass_by(key)
        stored = await self._store.get(key)
        if self.got_gate is not None:
            await self.got_gate.pass_by(key)
        return stored

    async def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        if self.list_gate is not None:
            await self.list_gate.pass_by(prefix)
        async for entry in self._store.list(prefix, start_after):
            yield entry


def ignore(events: Sequence[Event]) -> None:
    """Nobody listens."""


async def moved_to_memory(queue: Queue) -> list[Job]:
    """All jobs, after the queue was moved to another one."""
    there = World()
    async with there.open() as target:
        migration = Migration(End(queue._backend, "here"), End(target._backend, ELSEWHERE))
        await migration.run()
        return [job async for job in target.jobs()]


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("closing", [MOVE, FILL], ids=["source", "target"])
async def test_a_job_that_is_stored_after_the_closing_is_refused_and_gone(
    closing: MoveQueue | BeginFilling, key: str | None
) -> None:
    world = World()
    store = Gated(world.store)
    async with world.open(store) as old, world.open() as mover:
        await old.enqueue("work", id="before")
        gate = store.put_gate = Gate(TASKS)
        late = asyncio.ensure_future(old.enqueue("work", id="late", key=key, unique_seconds=60))
        await gate.reached.wait()
        await mover._backend.execute(closing)
        gate.open()
        with pytest.raises((Moved, BeingFilled)):
            await late
        assert await ids(mover) == ["before"]
        contents = await mover._backend.contents()
        assert [(one.jobs, one.keys) for one in contents.tenants] == [(1, [])]
        taken_back = await mover.get("late")
        assert taken_back is None


async def test_a_job_that_is_stored_before_the_tasks_are_listed_moves_along() -> None:
    world = World()
    slow = Gated(world.store)
    async with world.open() as old, world.open(slow) as mover:
        await old.enqueue("work", id="before")
        gate = slow.list_gate = Gate(TASKS)
        closing = asyncio.ensure_future(mover._backend.execute(MOVE))
        await gate.reached.wait()
        with pytest.raises(OutcomeUnknown):
            await old.enqueue("work", id="late")
        gate.open()
        await closing
        with pytest.raises(Moved):
            await old.enqueue("work", id="late")
        assert sorted(job.id for job in await moved_to_memory(mover)) == ["before", "late"]


async def test_what_was_answered_before_the_closing_moves_as_it_was_left() -> None:
    """Acked by one whose charter is old, while the tasks are about to be listed."""
    world = World()
    slow = Gated(world.store)
    async with world.open() as old, world.open(slow) as mover:
        job = await claimed(old, id="held")
        gate = slow.list_gate = Gate(TASKS)
        closing = asyncio.ensure_future(mover._backend.execute(MOVE))
        await gate.reached.wait()
        await old.ack(job, "done")
        gate.open()
        await closing
        [arrived] = await moved_to_memory(mover)
        assert (arrived.id, arrived.state) == ("held", State.COMPLETED)


async def test_a_put_on_a_task_that_was_sealed_meanwhile_is_refused() -> None:
    world = World()
    store = Gated(world.store)
    async with world.open(store) as old, world.open() as mover:
        job = await claimed(old, id="held")
        gate = store.put_gate = Gate(TASKS)
        ack = asyncio.ensure_future(old.ack(job))
        await gate.reached.wait()
        await mover._backend.execute(MOVE)
        gate.open()
        with pytest.raises(Moved, match=ELSEWHERE):
            await ack
        [arrived] = await moved_to_memory(mover)
        assert arrived.state is State.RUNNING


async def test_a_key_that_is_taken_after_the_closing_revives_nothing() -> None:
    """The task is sealed between the first and the second step of taking a key."""
    world = World()
    store = Gated(world.store)
    async with world.open(store) as old, world.open() as mover:
        gate = store.put_gate = Gate(KEYS)
        late = asyncio.ensure_future(old.enqueue("work", id="late", key="k", unique_seconds=60))
        await gate.reached.wait()
        await mover._backend.execute(MOVE)
        gate.open()
        with pytest.raises(Moved):
            await late
        assert await ids(mover) == []
        assert await moved_to_memory(mover) == []


@pytest.mark.parametrize("stop", [READY, TASKS], ids=["looking", "reading"])
async def test_a_claim_that_began_before_the_closing_gets_no_job_that_came_after(stop: str) -> None:
    world = World()
    client, worker = Gated(world.store), Gated(world.store)
    async with world.open(client) as old, world.open(worker) as claims, world.open() as mover:
        put, enqueued, begun = Gate(TASKS), Gate(CHARTER), Gate(stop)
        client.put_gate, worker.list_gate, worker.get_gate = put, begun, begun
        late = asyncio.ensure_future(old.enqueue("work", id="late"))
        await put.reached.wait()
        claim = asyncio.ensure_future(claims.claim())
        await begun.reached.wait()
        await mover._backend.execute(MOVE)
        client.got_gate = enqueued
        put.open()
        await enqueued.reached.wait()
        begun.open()
        await asyncio.wait([claim])
        enqueued.open()
        for refused in (claim, late):
            with pytest.raises(Moved):
                await refused


async def test_a_job_that_came_too_late_is_enqueued_after_all_if_the_queue_reopens() -> None:
    world = World()
    store = Gated(world.store)
    async with world.open(store) as old, world.open() as mover:
        put, looked = Gate(TASKS), Gate(CHARTER)
        store.put_gate = put
        late = asyncio.ensure_future(old.enqueue("work", id="late"))
        await put.reached.wait()
        await mover._backend.execute(MOVE)
        store.got_gate = looked
        put.open()
        await looked.reached.wait()
        await mover._backend.execute(ReopenQueue(SYSTEM_TENANT, "m1"))
        looked.open()
        assert (await late).status == "queued"
        assert (await claim_one(mover)).id == "late"


async def test_those_with_an_old_charter_find_a_reopened_queue_open() -> None:
    world = World()
    async with world.open() as old, world.open() as mover:
        job = await claimed(old, id="held")
        await mover._backend.execute(MOVE)
        with pytest.raises(Moved):
            await old.ack(job)
        await mover._backend.execute(ReopenQueue(SYSTEM_TENANT, "m1"))
        await old.ack(job)
        await old.enqueue("work", id="next")
        assert (await claim_one(mover)).id == "next"


async def test_a_filling_begins_above_all_positions_whatever_the_clocks_say() -> None:
    """Or jobs of a process that is a little ahead would pass for adopted ones."""
    world = World()
    services = seeded_services(1, FakeClock(world.clock.now() + 1.5))
    opening = penstock.open(store=world.store, layout="tasks", services=services)
    async with opening as ahead, world.open() as mover:
        await ahead.enqueue("work", id="own")
        move = await mover._backend.execute(FILL)
        adoption = Adopt("default", "m1", [pending("came", world.clock.now())])
        assert await mover._backend.execute(adoption) == [True]
        assert (await mover._backend.execute(replace(OPEN, jobs=1))).jobs == 1
        lives = [(await found(mover, id)).life for id in ("own", "came")]
        assert lives[0] < move.position < lives[1]


async def test_a_job_may_be_adopted_where_another_came_too_late() -> None:
    world = World()
    store = Gated(world.store)
    async with world.open(store) as old, world.open() as mover:
        put, answered = Gate(TASKS), Gate(CHARTER)
        store.put_gate = put
        late = asyncio.ensure_future(old.enqueue("work", "late", id="a"))
        await put.reached.wait()
        await mover._backend.execute(FILL)
        store.got_gate = answered
        put.open()
        await answered.reached.wait()
        adoption = Adopt("default", "m1", [pending("a", world.clock.now())])
        outcomes = await mover._backend.execute(adoption)
        answered.open()
        assert outcomes == [True]
        with pytest.raises(OutcomeUnknown):
            await late
        await mover._backend.execute(replace(OPEN, jobs=1))
        assert (await claim_one(old)).payload == 1


async def test_an_earlier_look_at_the_charter_never_hides_a_later_one() -> None:
    world = World()
    store, services = Gated(world.store), seeded_services(1, world.clock)
    decider = Decider(Positions(services.luck), services.luck)
    charter = CharterStore(store, services, CommitClock(store, services), decider, ignore)
    async with world.open() as mover:
        await mover.pause("reports")
        gate = store.got_gate = Gate(CHARTER)
        slow = asyncio.ensure_future(charter.refresh())
        await gate.reached.wait()
        await mover._backend.execute(MOVE)
        assert not await charter.still_open()
        gate.open()
        await slow
        with pytest.raises(Moved):
            charter.require_open()


class Failing(Layer):
    """Takes so many puts, and then none."""

    def __init__(self, store: ObjectStore, puts: int) -> None:
        super().__init__(store)
        self._left = puts

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        if self._left == 0:
            raise StoreDenied("failing", key, "as told")
        self._left -= 1
        return await self._store.put(key, data, mode)


@pytest.mark.parametrize("side", ["source", "target"])
async def test_a_move_that_stops_at_any_put_is_gone_on_with(side: str) -> None:
    for puts in range(PUTS_MAX):
        here, there = World(), World(1)
        async with here.open() as queue:
            held = await _live_a_little(queue)
        stores = [here.store, there.store]
        failing = Failing(stores[side == "target"], puts)
        try:
            if side == "source":
                await _move(here, there, failing, there.store)
            else:
                await _move(here, there, here.store, failing)
            break
        except (StoreDenied, OutcomeUnknown):
            await _expect_one_side(here, there)
        await _move(here, there, here.store, there.store)
        assert await _seals(here) == await _seals(there)
        async with there.open() as queue:
            await _expect_all(queue, held)
        assert [await world.troubles() for world in (here, there)] == [{}, {}]
    assert 5 < puts < PUTS_MAX - 1, "it hardly stopped, or always did"


async def _seals(world: World) -> set[str]:
    """Of all tasks: one move has closed, or brought, each of them."""
    keys = await world.keys(TASKS)
    return {decode_task(key, (await world.store.get(key)).data).sealed for key in keys}


async def _live_a_little(queue: Queue) -> Job:
    jobs = [NewJob("work", n, id=f"job-{n}", key=f"k{n}") for n in range(4)]
    await queue.enqueue_many(jobs)
    await queue.enqueue("work", id="ended", key="e", unique_seconds=600, priority=-1)
    await queue.ack(await claim_one(queue))
    return await claim_one(queue)


async def _expect_all(queue: Queue, held: Job) -> None:
    assert sorted(await ids(queue)) == ["ended", *(f"job-{n}" for n in range(4))]
    assert (await queue.enqueue("work", key="e")).id == "ended"
    assert (await queue.enqueue("work", key="k3")).id == "job-3"
    await queue.ack(held)
    assert len(await queue.claim(9)) == 3


async def _move(source: World, target: World, here: ObjectStore, there: ObjectStore) -> None:
    async with source.open(here) as one, target.open(there) as two:
        await Migration(End(one._backend, "here"), End(two._backend, "there"), batch=2).run()


async def _expect_one_side(source: World, target: World) -> None:
    """What can be claimed here, can't be there."""
    async with source.open() as here, target.open() as there:
        with contextlib.suppress(Moved):
            await here.release(await here.claim(1))
        with contextlib.suppress(BeingFilled):
            assert await there.claim(1) == []


async def test_fences_grow_with_every_move_and_stay_numbers_that_any_store_can_keep() -> None:
    here, fences = World(), [0]
    async with here.open() as queue:
        await queue.enqueue("work", id="job")
    for n in range(1, MOVES + 1):
        async with here.open() as queue:
            for _ in range(2):
                job = await claim_one(queue)
                assert job.lease is not None
                assert fences[-1] < job.lease.fence < NUMBERS_END
                fences.append(job.lease.fence)
                await queue.release(job)
        there = World(n)
        await _move(here, there, here.store, there.store)
        here = there
