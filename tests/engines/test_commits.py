"""The commit loop: what shares a put, what does not, and what happens to those who leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

import penstock
from penstock import NewJob, Queue
from penstock.errors import LeaseLost, QueueClosed
from penstock.kernel.job import State
from penstock.ports.store import StoredObject
from penstock.runtime.services import Services
from penstock.stores.layers.counting import Counting
from penstock.stores.layers.layer import Layer
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock, turns
from penstock.testing.conformance.backend.steps import (
    all_events,
    claim_one,
    claimed,
    found,
    ids,
    meanwhile,
    names,
    story,
    take,
)
from tests.engines.stores import Held, Unwatched


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def counting(clock: FakeClock) -> Counting:
    return Counting(MemoryStore(now=clock.now))


@pytest.fixture
def held(counting: Counting) -> Held:
    return Held(counting)


@pytest.fixture
async def queue(held: Held, clock: FakeClock) -> AsyncIterator[Queue]:
    async with penstock.open(store=held, services=Services(clock=clock)) as queue:
        yield queue
        held.let_go()


async def test_callers_at_the_same_time_share_one_put(
    queue: Queue, held: Held, counting: Counting
) -> None:
    held.hold()
    async with meanwhile(queue.enqueue("work")):
        await held.arrived.wait()
        before = counting.requests
        async with asyncio.TaskGroup() as group:
            for _ in range(100):
                group.create_task(queue.enqueue("work"))
            await turns()
            held.let_go()
    assert counting.requests.since(before).puts == 2, "the one held up, and one for all others"
    assert (await queue.stats()).jobs == 101


async def test_without_group_commit_each_operation_has_its_own_put(
    counting: Counting, clock: FakeClock
) -> None:
    services = Services(clock=clock)
    async with penstock.open(store=counting, services=services, group_commit=False) as queue:
        await queue.expire()
        before = counting.requests
        await asyncio.gather(*(queue.enqueue("work") for _ in range(10)))
        assert counting.requests.since(before).puts == 10


async def test_a_batch_costs_one_put_and_no_read(queue: Queue, counting: Counting) -> None:
    await queue.enqueue("work")
    before = counting.requests
    await queue.enqueue_many([NewJob("work") for _ in range(500)])
    jobs = await queue.claim(500)
    await queue.ack(jobs)
    spent = counting.requests.since(before)
    assert (spent.puts, spent.gets, spent.lists, spent.deletes) == (3, 0, 0, 0)


async def test_an_answer_without_an_event_costs_one_read_for_all_who_ask(
    queue: Queue, held: Held, counting: Counting
) -> None:
    await queue.enqueue("work", id="known")
    held.hold()
    async with meanwhile(queue.enqueue("work")):
        await held.arrived.wait()
        before = counting.requests
        async with asyncio.TaskGroup() as group:
            for _ in range(50):
                group.create_task(queue.enqueue("work", id="known"))
                group.create_task(queue.get("known"))
            await turns()
            held.let_go()
    assert counting.requests.since(before).gets == 1


async def test_idling_costs_nothing_when_nobody_waits(
    queue: Queue, clock: FakeClock, counting: Counting
) -> None:
    await queue.enqueue("work", delay_seconds=7200)
    before = counting.requests
    await clock.advance(3600)
    assert counting.requests.since(before).total == 0


async def test_a_follower_of_a_silent_store_costs_one_read_per_poll(
    clock: FakeClock, counting: Counting
) -> None:
    async with penstock.open(store=Unwatched(counting), services=Services(clock=clock)) as queue:
        await queue.enqueue("work", queue="other")
        async with meanwhile(queue.claim(queues=["mine"], wait_seconds=600)) as claim:
            before = counting.requests
            await clock.advance(300)
            spent = counting.requests.since(before)
            claim.cancel()
    assert spent.puts == spent.lists == spent.deletes == 0
    # From 100 ms to 5 s, give or take a quarter.
    assert 40 <= spent.gets <= 300 / (5 * 0.75) + 10


async def test_a_bad_command_fails_its_caller_alone(queue: Queue, held: Held) -> None:
    good, lost = await claimed(queue, id="good"), await claimed(queue, id="lost")
    await queue.cancel("lost")
    await queue.replay("lost")
    held.hold()
    async with meanwhile(queue.enqueue("work")):
        await held.arrived.wait()
        outcomes = asyncio.gather(
            queue.enqueue("work", id="new"),
            queue.ack(lost),
            queue.ack(good, "done"),
            queue.replay("good"),
            queue.get("nobody"),
            return_exceptions=True,
        )
        await turns()
        held.let_go()
        receipt, lease_lost, ack, wrong_state, nobody = await outcomes
    assert receipt.status == "queued"  # type: ignore[union-attr]
    assert isinstance(lease_lost, LeaseLost)
    assert ack is None
    assert isinstance(wrong_state, penstock.errors.WrongState)
    assert nobody is None


async def test_a_caller_that_leaves_before_its_turn_was_never_there(
    queue: Queue, held: Held
) -> None:
    held.hold()
    async with meanwhile(queue.enqueue("work", id="first")):
        await held.arrived.wait()
        async with meanwhile(queue.enqueue("work", id="gone")) as gone:
            gone.cancel()
        held.let_go()
    assert await ids(queue) == ["first"]


async def test_a_caller_that_leaves_while_its_commit_is_under_way_undoes_nothing(
    queue: Queue, held: Held
) -> None:
    held.hold()
    async with meanwhile(queue.enqueue("work", id="sent")) as sent:
        await held.arrived.wait()
        sent.cancel()
    held.let_go()
    assert sent.cancelled()
    assert (await found(queue, "sent")).state is State.PENDING


async def test_jobs_claimed_for_a_caller_that_left_are_given_back(queue: Queue, held: Held) -> None:
    await queue.enqueue("work", id="job")
    held.hold()
    async with meanwhile(queue.claim()) as claim:
        await held.arrived.wait()
        claim.cancel()
    held.let_go()
    job = await claim_one(queue, wait_seconds=10)
    assert (job.id, job.attempt, job.failures) == ("job", 2, 0)
    assert await story(queue, "job") == ["enqueued", "claimed", "released", "claimed"]


async def test_closing_finishes_what_was_accepted(
    queue: Queue, held: Held, counting: Counting, clock: FakeClock
) -> None:
    held.hold()
    async with asyncio.TaskGroup() as group:
        accepted = [group.create_task(queue.enqueue("work", id=str(n))) for n in range(5)]
        await held.arrived.wait()
        accepted += [group.create_task(queue.enqueue("work", id=str(n))) for n in range(5, 9)]
        await turns()
        closing = group.create_task(queue.close())
        await turns()
        assert not closing.done()
        with pytest.raises(QueueClosed):
            await queue.enqueue("work", id="too late")
        held.let_go()
    assert [task.result().status for task in accepted] == ["queued"] * 9
    async with penstock.open(store=counting, services=Services(clock=clock)) as again:
        assert await ids(again) == [str(n) for n in range(9)]


async def test_two_writers_take_turns_and_nothing_is_doubled(
    clock: FakeClock, counting: Counting
) -> None:
    services = Services(clock=clock)
    async with (
        penstock.open(store=counting, services=services) as first,
        penstock.open(store=counting, services=services) as second,
    ):
        writers = (first, second)
        await asyncio.gather(
            *(writers[n % 2].enqueue("work", id=str(n)) for n in range(40)),
            *(writer.enqueue("work", key="k") for writer in writers),
        )
        assert (await first.stats()).jobs == (await second.stats()).jobs == 41
        events = await all_events(first)
        assert names(events) == ["enqueued"] * 41


async def test_a_claim_of_all_that_waits_is_one_commit(queue: Queue) -> None:
    await queue.enqueue_many([NewJob("work") for _ in range(10)])
    before = (await queue.stats()).commit
    async with meanwhile(queue.claim(5)) as first, meanwhile(queue.claim(5)) as second:
        pass
    assert len(first.result()) == len(second.result()) == 5
    assert (await queue.stats()).commit <= before + 2


async def test_who_begins_to_follow_while_the_queue_closes_is_told_so(
    clock: FakeClock, counting: Counting
) -> None:
    """The queue closes while a follower is on its way to the store, before it waits for news."""

    class Slow(Layer):
        async def get(self, key: str) -> StoredObject:
            if key == "floor":
                asked.set()
                await answer.wait()
            return await self._store.get(key)

    asked, answer = asyncio.Event(), asyncio.Event()

    async def follow() -> None:
        with pytest.raises(QueueClosed):
            await take(queue, 1)

    async with penstock.open(store=counting, services=Services(clock=clock)) as queue:
        journal = queue._backend._engine._journal  # type: ignore[attr-defined]
        journal._store = Slow(counting)
        async with meanwhile(follow()) as following:
            await asked.wait()
            await queue.close()
            answer.set()
    assert following.done()
