"""Puts whose answers are lost: what became of them is read, never guessed, and never done twice."""

from __future__ import annotations

import asyncio

import pytest

from penstock.engines.records.tasks.documents import NONCES_KEPT, Documents
from penstock.errors import OutcomeUnknown, PreconditionFailed, StoreUnavailable
from penstock.kernel.job import State
from penstock.ports.store import PutMode, Replace, Written
from penstock.runtime.services import Services
from penstock.stores.layers.layer import Layer
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.steps import claim_one, claimed, found, ids, story
from penstock.testing.faults import Fault
from penstock.wire.task import CharterObject, decode_charter_object, encode_charter_object
from tests.tasks_layout.worlds import World

AMBIGUOUS = [Fault.LOST_ANSWER, Fault.LOST_REQUEST, Fault.LATE, Fault.ECHO]


@pytest.fixture(params=AMBIGUOUS, ids=lambda fault: fault.name)
def fault(request: pytest.FixtureRequest) -> Fault:
    fault: Fault = request.param
    return fault


async def test_an_enqueue_is_one_job(fault: Fault) -> None:
    world = World(autojump=True)
    async with world.open_faulty() as (queue, store):
        store.fail_next("put", fault, prefix="tasks/")
        assert (await queue.enqueue("work", id="job")).status == "queued"
        assert await story(queue, "job") == ["enqueued"]


async def test_a_claim_has_its_lease(fault: Fault) -> None:
    world = World(autojump=True)
    async with world.open_faulty() as (queue, store):
        await queue.enqueue("work", id="job")
        store.fail_next("put", fault, prefix="tasks/")
        job = await claim_one(queue)
        assert job.attempt == 1
        await queue.ack(job)
        assert await story(queue, "job") == ["enqueued", "claimed", "completed"]


async def test_an_ack_is_a_success(fault: Fault) -> None:
    world = World(autojump=True)
    async with world.open_faulty() as (queue, store):
        job = await claimed(queue, id="job")
        store.fail_next("put", fault, prefix="tasks/")
        await queue.ack(job, "done")
        assert (await found(queue, "job")).result == "done"
        assert await story(queue, "job") == ["enqueued", "claimed", "completed"]


@pytest.mark.parametrize("prefix", ["tasks/", "keys/", "ready/"])
async def test_a_key_is_taken_once(fault: Fault, prefix: str) -> None:
    world = World(autojump=True)
    async with world.open_faulty() as (queue, store):
        if not (prefix == "ready/" and fault is Fault.ECHO):
            store.fail_next("put", fault, prefix=prefix)
        first = await queue.enqueue("work", id="first", key="k")
        again = await queue.enqueue("work", id="second", key="k")
        assert (first.status, again.status, again.id) == ("queued", "duplicate", "first")
        assert await ids(queue) == ["first"]


async def test_a_pause_happens_once(fault: Fault) -> None:
    world = World(autojump=True)
    async with world.open_faulty() as (queue, store):
        store.fail_next("put", fault, prefix="charter.json")
        await queue.pause("images")
        told = [event.event async for event in queue.events("beginning", follow=False)]
        assert told == ["paused"]


async def test_a_put_that_was_followed_by_others_is_recognised() -> None:
    """Its answer is lost, and another process goes on from it before anybody looks."""
    world = World()
    async with world.open() as other, world.open() as queue:
        await queue.enqueue("work", id="job")

        class Meddled(Layer):
            async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
                written = await super().put(key, data, mode)
                if key.startswith("tasks/") and isinstance(mode, Replace):
                    await other.cancel("job")
                    raise PreconditionFailed(self.name, key)
                return written

        async with world.open(Meddled(world.store)) as meddled:
            [job] = await meddled.claim()
        assert (job.id, job.attempt) == ("job", 1)
        assert await story(queue, "job") == ["enqueued", "claimed", "cancelled"]


async def test_when_too_much_has_come_since_the_outcome_is_unknown_and_said_so() -> None:
    clock = FakeClock()
    services, store = Services(clock=clock), MemoryStore(now=clock.now)

    def documents(store: MemoryStore | Layer) -> Documents[CharterObject]:
        return Documents(store, services, encode_charter_object, decode_charter_object)

    plain = documents(store)

    class Overtaken(Layer):
        async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
            for n in range(NONCES_KEPT + 1):
                kept = await plain.read(key)
                await plain.put(key, kept, CharterObject(forgotten=n))
            raise PreconditionFailed(self.name, key)

    first = await plain.put("charter.json", None, CharterObject())
    with pytest.raises(OutcomeUnknown):
        await documents(Overtaken(store)).put("charter.json", first, CharterObject())


async def test_a_store_that_refuses_for_long_is_said_and_nothing_happened() -> None:
    world = World(autojump=True)
    async with world.open_faulty() as (queue, store):
        store.fail_next("put", Fault.ERROR, prefix="tasks/", times=1_000)
        with pytest.raises(StoreUnavailable):
            await queue.enqueue("work", id="job")
        await store.heal()
        assert await ids(queue) == []
        assert (await queue.enqueue("work", id="job")).status == "queued"


async def test_what_was_won_beside_trouble_is_given_out() -> None:
    world = World(autojump=True)
    async with world.open_faulty() as (queue, store):
        for n in range(3):
            await queue.enqueue("work", id=str(n))
        store.fail_next("put", Fault.DENIED, prefix="tasks/")
        won = await queue.claim(3)
        await store.heal()
        assert 1 <= len(won) < 3
        assert len(await queue.claim(3)) == 3 - len(won)


async def test_of_many_enqueues_of_one_key_at_once_one_is_queued() -> None:
    world = World()
    async with world.open() as first, world.open() as second, world.open() as third:
        receipts = await asyncio.gather(
            *(
                queue.enqueue("work", id=f"{n}", key="k")
                for n, queue in enumerate((first, second, third) * 5)
            )
        )
        assert sorted(receipt.status for receipt in receipts) == ["duplicate"] * 14 + ["queued"]
        assert len({receipt.id for receipt in receipts}) == 1
        [job] = [job async for job in first.jobs()]
        assert job.state is State.PENDING
        assert job.id == receipts[0].id
