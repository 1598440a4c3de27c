"""Puts whose fate is not known: told so in time, frozen until it is, and never done twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

import penstock
from penstock import Queue
from penstock.errors import OutcomeUnknown, StoreError, StoreUnavailable
from penstock.kernel.commands import Receipt
from penstock.kernel.job import State
from penstock.runtime.services import Services
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.steps import (
    all_events,
    claim_one,
    claimed,
    found,
    ids,
    meanwhile,
    names,
    nonzero,
    story,
)
from penstock.testing.faults import Fault
from penstock.testing.faulty_store import FaultyStore

LAYOUTS = {"log": "log/", "single": "queue.json"}
FOR_EVER = 10_000
OUTCOME_SECONDS = 0.05


class World:
    """One store, and clients that each have their own trouble with it."""

    def __init__(self, layout: str) -> None:
        self.clock = FakeClock(autojump=True)
        self.store = MemoryStore(now=self.clock.now)
        self.layout = layout
        self.prefix = LAYOUTS[layout]
        self.faulty = FaultyStore(self.store, self.clock, Random(1))

    @asynccontextmanager
    async def open(self, store: Any = None, **options: Any) -> AsyncIterator[Queue]:
        services = Services(clock=self.clock)
        chosen = self.faulty if store is None else store
        async with penstock.open(
            store=chosen, layout=self.layout, services=services, **options
        ) as queue:
            yield queue

    def trouble(self, fault: Fault, times: int = 1) -> None:
        self.faulty.fail_next("put", fault, prefix=self.prefix, times=times)


@pytest.fixture(params=LAYOUTS)
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


@pytest.mark.parametrize(
    "fault", [Fault.LOST_ANSWER, Fault.LOST_REQUEST, Fault.ECHO, Fault.THROTTLED, Fault.LATE]
)
async def test_a_put_that_goes_wrong_once_is_done_once(world: World, fault: Fault) -> None:
    async with world.open() as queue:
        await queue.enqueue("work", id="before")
        world.trouble(fault)
        receipt = await queue.enqueue("work", id="job")
        assert receipt.status == "queued"
        await world.faulty.heal()
        job = await claim_one(queue)
        world.trouble(fault)
        await queue.ack(job, "done")
        await world.faulty.heal()
        assert await ids(queue) == ["before", "job"]
        assert names(await all_events(queue)) == ["enqueued", "enqueued", "claimed", "completed"]


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.ECHO])
async def test_a_claim_whose_answer_was_lost_keeps_its_leases(world: World, fault: Fault) -> None:
    async with world.open() as queue:
        await queue.enqueue("work", id="job")
        world.trouble(fault)
        job = await claim_one(queue)
        assert job.attempt == 1
        await queue.ack(job)
        assert await story(queue, "job") == ["enqueued", "claimed", "completed"]


async def test_a_put_that_was_certainly_refused_raises_and_did_not_happen(world: World) -> None:
    async with world.open() as queue:
        world.trouble(Fault.ERROR)
        with pytest.raises(StoreUnavailable):
            await queue.enqueue("work", id="job")
        assert await queue.get("job") is None
        assert (await queue.enqueue("work", id="job")).status == "queued"


async def test_a_refusal_after_an_unknown_put_proves_nothing(world: World) -> None:
    """The first may still land: only when the slot is taken is the batch over."""
    async with world.open() as queue:
        await queue.enqueue("work", id="before")
        world.trouble(Fault.LATE)
        world.trouble(Fault.ERROR, times=3)
        assert (await queue.enqueue("work", id="job")).status == "queued"
        await world.faulty.heal()
        assert await ids(queue) == ["before", "job"]


async def test_a_caller_is_told_in_time_that_the_outcome_is_unknown(world: World) -> None:
    world.clock = FakeClock()
    world.store = MemoryStore(now=world.clock.now)
    world.faulty = FaultyStore(world.store, world.clock, Random(1))
    async with world.open(outcome_seconds_max=OUTCOME_SECONDS) as queue:
        await queue.enqueue("work", id="before")
        world.trouble(Fault.LOST_REQUEST, times=FOR_EVER)
        with pytest.raises(OutcomeUnknown, match="Retrying it with operation=") as raised:
            await queue.enqueue("work", id="job")
        assert (raised.value.what, raised.value.ids) == ("enqueue", ("job",))
        operation = raised.value.operation
        assert operation is not None
        assert len(operation) >= 22, "128 random bits"
        with pytest.raises((OutcomeUnknown, StoreUnavailable)):
            await queue.enqueue("work", id="behind it")
        await world.faulty.heal()
        await world.clock.advance(10)
        # The frozen attempt went on alone, and the retry meets it, dead or alive.
        await queue.cancel("job")
        again = await queue.enqueue("work", id="job", operation=operation)
        assert (again.status, again.state) == ("duplicate", State.CANCELLED)
        assert names(await all_events(queue)).count("enqueued") == 2


async def test_what_was_unknown_can_be_asked_again_by_its_operation_alone(world: World) -> None:
    world.clock = FakeClock()
    world.store = MemoryStore(now=world.clock.now)
    world.faulty = FaultyStore(world.store, world.clock, Random(1))
    jobs = [penstock.NewJob("work"), penstock.NewJob("work", id="mine"), penstock.NewJob("work")]
    async with world.open(outcome_seconds_max=OUTCOME_SECONDS) as queue:
        await queue.enqueue("work", id="before")
        await queue.claim()
        world.trouble(Fault.LOST_REQUEST, times=FOR_EVER)
        with pytest.raises(OutcomeUnknown) as raised:
            await queue.enqueue_many(jobs)
        unknown = raised.value
        await world.faulty.heal()
        await world.clock.advance(10)
        receipts = await queue.enqueue_many(jobs, operation=unknown.operation)
        assert tuple(one.id for one in receipts if isinstance(one, Receipt)) == unknown.ids
        assert [one.status for one in receipts if isinstance(one, Receipt)] == ["duplicate"] * 3
        assert len(await ids(queue)) == 4


@pytest.mark.parametrize("verb", ["claim", "ack", "nack", "release", "cancel"])
async def test_an_unknown_outcome_says_of_what(world: World, verb: str) -> None:
    world.clock = FakeClock()
    world.store = MemoryStore(now=world.clock.now)
    world.faulty = FaultyStore(world.store, world.clock, Random(1))
    async with world.open(outcome_seconds_max=OUTCOME_SECONDS) as queue:
        job = await claimed(queue)
        await queue.enqueue("work")
        world.trouble(Fault.LOST_REQUEST, times=FOR_EVER)
        asked: dict[str, Callable[[], Awaitable[object]]] = {
            "claim": lambda: queue.claim(operation="c1a1"),
            "ack": lambda: queue.ack(job),
            "nack": lambda: queue.nack(job),
            "release": lambda: queue.release(job),
            "cancel": lambda: queue.cancel(job.id),
        }
        with pytest.raises(OutcomeUnknown) as raised:
            await asked[verb]()
        operation = "c1a1" if verb == "claim" else None
        assert (raised.value.what, raised.value.operation) == (verb, operation)
        await world.faulty.heal()
        await world.clock.advance(10)


@pytest.mark.parametrize("operation", [None, "mine"])
async def test_a_claim_of_which_nobody_knew_is_given_back_unless_it_is_asked_for_again(
    world: World, operation: str | None
) -> None:
    world.clock = FakeClock()
    world.store = MemoryStore(now=world.clock.now)
    world.faulty = FaultyStore(world.store, world.clock, Random(1))
    async with world.open(outcome_seconds_max=OUTCOME_SECONDS) as queue:
        await queue.enqueue("work", id="job")
        world.trouble(Fault.LOST_REQUEST, times=FOR_EVER)
        with pytest.raises(OutcomeUnknown):
            await queue.claim(lease_seconds=3_600, operation=operation)
        await world.faulty.heal()
        await world.clock.advance(10)
        job = await claim_one(queue, wait_seconds=60, operation=operation)
        assert (job.id, job.failures) == ("job", 0)
        between = [] if operation else ["released", "claimed"]
        assert await story(queue, "job") == ["enqueued", "claimed", *between]


async def test_who_asks_for_an_unknown_claim_by_its_operation_gets_its_leases(
    world: World,
) -> None:
    world.clock = FakeClock()
    world.store = MemoryStore(now=world.clock.now)
    world.faulty = FaultyStore(world.store, world.clock, Random(1))
    async with world.open(outcome_seconds_max=1.0) as queue:
        await queue.enqueue("work", id="job")
        world.trouble(Fault.LOST_REQUEST, times=FOR_EVER)
        with pytest.raises(OutcomeUnknown) as told:
            await queue.claim(lease_seconds=3_600)
        assert told.value.what == "claim"
        async with meanwhile(queue.claim(operation=told.value.operation)) as asking:
            await world.faulty.heal()
            await world.clock.advance(10)
        assert [job.attempt for job in asking.result()] == [1]
        await queue.ack(asking.result())
        assert await story(queue, "job") == ["enqueued", "claimed", "completed"]


async def test_a_claim_of_which_nobody_knew_is_given_back_by_a_handle_that_closes(
    world: World,
) -> None:
    async with world.open(world.store) as other:
        await other.enqueue("work", id="job")
        async with world.open(outcome_seconds_max=OUTCOME_SECONDS) as queue:
            world.trouble(Fault.LOST_REQUEST, times=FOR_EVER)
            async with meanwhile(queue.claim(lease_seconds=3_600)) as claiming:
                claiming.cancel()
                await world.faulty.heal()
        assert (await found(other, "job")).state is State.PENDING


async def test_a_frozen_attempt_that_lands_late_does_not_double(world: World) -> None:
    async with world.open() as queue:
        await queue.enqueue("work", id="before")
        world.trouble(Fault.LATE)
        world.trouble(Fault.LOST_REQUEST, times=3)
        assert (await queue.enqueue("work", id="job")).status == "queued"
        await world.faulty.heal(land_late_puts=True)
        await queue.enqueue("work", id="after")
        assert await ids(queue) == ["before", "job", "after"]
        assert names(await all_events(queue)) == ["enqueued"] * 3


async def test_a_late_put_that_lost_its_slot_to_another_is_decided_again_once(
    world: World,
) -> None:
    async with world.open() as slow, world.open(world.store) as quick:
        await slow.enqueue("work", id="before")
        world.trouble(Fault.LATE)
        world.trouble(Fault.LOST_REQUEST, times=2)
        async with meanwhile(slow.enqueue("work", id="slow")) as late:
            await quick.enqueue("work", id="quick")
        assert late.result().status == "queued"
        await world.faulty.heal(land_late_puts=True)
        assert sorted(await ids(quick)) == ["before", "quick", "slow"]
        assert sorted(await ids(slow)) == ["before", "quick", "slow"]
        assert names(await all_events(quick)) == ["enqueued"] * 3


async def test_an_attempt_that_lingers_does_not_double_the_retry_whose_job_has_left(
    world: World,
) -> None:
    """The id was made for the call, but its caller was told it, and has called again by it."""
    world.clock = FakeClock()
    world.store = MemoryStore(now=world.clock.now)
    world.faulty = FaultyStore(world.store, world.clock, Random(1))
    async with world.open(world.store) as quick:
        await quick.configure(result_ttl_seconds=0)
        async with world.open(outcome_seconds_max=OUTCOME_SECONDS) as slow:
            await slow.stats()
            world.trouble(Fault.LOST_REQUEST, times=FOR_EVER)
            with pytest.raises(OutcomeUnknown) as told:
                await slow.enqueue("work")
            again = await quick.enqueue("work", operation=told.value.operation)
            assert (again.status, (again.id,)) == ("queued", told.value.ids)
            await quick.ack(await claim_one(quick))
            assert await quick.get(again.id) is None
            await world.faulty.heal()
            await world.clock.advance(10)
            assert nonzero((await slow.stats()).totals) == {"completed": 1}


async def test_a_lost_answer_is_recognised_after_others_went_on(world: World) -> None:
    """In layout `single` a successor has replaced the state that was ours by then."""

    class Overtaken(FaultyStore):
        async def put(self, key: str, data: bytes, mode: Any) -> Any:
            try:
                return await super().put(key, data, mode)
            except StoreError:
                await other.enqueue("work", id="successor")
                raise

    overtaken = Overtaken(world.store, world.clock, Random(1))
    async with world.open(world.store) as other, world.open(overtaken) as queue:
        await queue.enqueue("work", id="before")
        overtaken.fail_next("put", Fault.LOST_ANSWER, prefix=world.prefix)
        assert (await queue.enqueue("work", id="mine")).status == "queued"
        assert await ids(queue) == ["before", "mine", "successor"]
        assert names(await all_events(queue)) == ["enqueued"] * 3


async def test_reads_that_fail_for_a_while_are_waited_out(world: World) -> None:
    async with world.open() as queue, world.open(world.store) as other:
        await other.enqueue("work", id="job")
        world.faulty.fail_next("get", Fault.ERROR, times=3)
        assert (await found(queue, "job")).state is State.PENDING


async def test_a_truncated_read_is_asked_for_again(world: World) -> None:
    async with world.open() as queue, world.open(world.store) as other:
        await other.enqueue("work", id="job")
        world.faulty.fail_next("get", Fault.TRUNCATED, prefix=world.prefix)
        world.faulty.fail_next("get", Fault.FLIPPED, prefix=world.prefix)
        assert (await found(queue, "job")).state is State.PENDING


async def test_nothing_is_lost_when_the_credentials_expire_for_a_while(world: World) -> None:
    async with world.open() as queue:
        job = await claimed(queue)
        world.trouble(Fault.DENIED)
        with pytest.raises(StoreError):
            await queue.ack(job, "done")
        await queue.ack(job, "done")
        assert (await found(queue, job.id)).result == "done"
