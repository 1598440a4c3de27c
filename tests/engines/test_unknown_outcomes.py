"""Puts whose fate is not known: told so in time, frozen until it is, and never done twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

import penstock
from penstock import Queue
from penstock.errors import OutcomeUnknown, StoreError, StoreUnavailable
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
        with pytest.raises(OutcomeUnknown, match="Retrying it with id 'job' is safe") as raised:
            await queue.enqueue("work", id="job")
        assert (raised.value.operation, raised.value.ids) == ("enqueue", ("job",))
        with pytest.raises((OutcomeUnknown, StoreUnavailable)):
            await queue.enqueue("work", id="behind it")
        await world.faulty.heal()
        await world.clock.advance(10)
        # The frozen attempt went on alone, and the retry meets it.
        assert (await queue.enqueue("work", id="job")).status == "duplicate"
        assert names(await all_events(queue)).count("enqueued") == 2


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
