"""The same job twice is one job: by its id while it is there, by its key while that is held."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.client.newjob import NewJob
from penstock.client.queue import Queue
from penstock.errors import LeaseLost
from penstock.kernel.commands import Receipt
from penstock.kernel.departures import REMEMBERED_SECONDS
from penstock.kernel.job import State
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.handles import Handles
from penstock.testing.conformance.backend.steps import (
    AT_ONCE,
    HANG_SECONDS,
    claim_one,
    claimed,
    completed,
    failed,
    found,
    ids,
    meanwhile,
    story,
)


class Deduplication:
    async def test_a_known_id_is_a_duplicate_with_its_state(self, queue: Queue) -> None:
        await queue.enqueue("work", "first", id="once")
        again = await queue.enqueue("work", "second", id="once")
        assert (again.id, again.status, again.state) == ("once", "duplicate", State.PENDING)
        job = await claim_one(queue)
        assert job.payload == "first"
        assert (await queue.enqueue("work", id="once")).state is State.RUNNING
        assert await queue.claim() == []

    async def test_the_id_of_a_completed_job_gives_its_result(self, queue: Queue) -> None:
        await completed(queue, {"answer": 42}, id="once")
        again = await queue.enqueue("work", id="once")
        assert (again.id, again.status, again.state) == ("once", "completed", State.COMPLETED)
        assert again.result == {"answer": 42}

    async def test_an_id_is_one_whatever_its_queue_and_type(self, queue: Queue) -> None:
        await queue.enqueue("work", id="once")
        again = await queue.enqueue("other", id="once", queue="elsewhere")
        assert again.status == "duplicate"
        assert (await found(queue, "once")).type == "work"

    async def test_the_same_id_twice_in_one_batch_is_one_job(self, queue: Queue) -> None:
        receipts = await queue.enqueue_many([NewJob("work", id="once")] * 3)
        assert [_status(receipt) for receipt in receipts] == ["queued", "duplicate", "duplicate"]
        assert await ids(queue) == ["once"]

    async def test_of_many_at_the_same_time_one_is_queued(self, handles: Handles) -> None:
        first = await handles.open()
        receipts = await asyncio.gather(*(first.enqueue("work", id="once") for _ in range(10)))
        assert sorted(receipt.status for receipt in receipts) == ["duplicate"] * 9 + ["queued"]

    async def test_of_many_handles_at_the_same_time_one_queues(self, handles: Handles) -> None:
        queues = await handles.open_more(4)
        receipts = await asyncio.gather(*(queue.enqueue("work", key="k") for queue in queues))
        assert sorted(receipt.status for receipt in receipts) == ["duplicate"] * 3 + ["queued"]
        assert len({receipt.id for receipt in receipts}) == 1

    async def test_an_id_whose_job_has_left_begins_a_new_life(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        id = await completed(queue, "old", id="phoenix")
        old = await found(queue, id)
        await clock.advance(3600)
        again = await queue.enqueue("work", "new payload", id="phoenix")
        assert (again.status, again.state, again.result) == ("queued", State.PENDING, None)
        new = await found(queue, "phoenix")
        assert new.life > old.life
        assert (new.attempt, new.result, new.payload) == (0, None, "new payload")

    async def test_the_history_of_an_id_is_that_of_its_latest_life(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await completed(queue, id="phoenix")
        await clock.advance(3600)
        await queue.enqueue("work", id="phoenix")
        assert await story(queue, "phoenix") == ["enqueued"]

    async def test_a_held_key_makes_a_duplicate_of_its_holder(self, queue: Queue) -> None:
        holder = await queue.enqueue("work", "first", key="k")
        again = await queue.enqueue("work", "second", key="k")
        assert (again.id, again.status, again.state) == (holder.id, "duplicate", State.PENDING)
        assert await ids(queue) == [holder.id]

    async def test_a_key_is_held_in_its_queue_and_type_only(self, queue: Queue) -> None:
        places = [("a", "x"), ("a", "y"), ("b", "x")]
        receipts = [await queue.enqueue(type, queue=name, key="k") for name, type in places]
        assert [receipt.status for receipt in receipts] == ["queued"] * 3
        again = [await queue.enqueue(type, queue=name, key="k") for name, type in places]
        assert [receipt.id for receipt in again] == [receipt.id for receipt in receipts]

    async def test_different_keys_do_not_meet(self, queue: Queue) -> None:
        receipts = [await queue.enqueue("work", key=key) for key in ("k", "K", "k ", "k/l")]
        assert [receipt.status for receipt in receipts] == ["queued"] * 4

    @pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
    async def test_a_key_is_free_when_its_job_has_ended(self, queue: Queue, end: str) -> None:
        first = await queue.enqueue("work", key="k")
        if end == "cancelled":
            await queue.cancel(first.id)
        else:
            job = await claim_one(queue)
            await (queue.ack(job) if end == "completed" else queue.nack(job, "no", retry=False))
        second = await queue.enqueue("work", key="k")
        assert second.status == "queued"
        assert second.id != first.id

    async def test_a_key_is_held_while_its_job_runs_and_retries(self, queue: Queue) -> None:
        job = await claimed(queue, key="k", retry=AT_ONCE)
        assert (await queue.enqueue("work", key="k")).state is State.RUNNING
        await queue.nack(job, "boom")
        assert (await queue.enqueue("work", key="k")).status == "duplicate"

    async def test_a_key_is_held_at_least_as_long_as_was_asked(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        id = await completed(queue, "done", key="k", unique_seconds=60)
        await clock.advance(59)
        again = await queue.enqueue("work", key="k")
        assert (again.id, again.status, again.result) == (id, "completed", "done")
        await clock.advance(1)
        assert (await queue.enqueue("work", key="k")).status == "queued"

    async def test_a_key_whose_job_has_left_is_still_held_as_long_as_was_asked(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await queue.configure(result_ttl_seconds=10)
        id = await completed(queue, "done", key="k", unique_seconds=60)
        await clock.advance(30)
        again = await queue.enqueue("work", key="k")
        assert (again.id, again.status, again.state) == (id, "duplicate", None)
        await clock.advance(30)
        assert (await queue.enqueue("work", key="k")).status == "queued"

    async def test_a_key_is_held_by_a_live_job_longer_than_was_asked(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        first = await queue.enqueue("work", key="k", unique_seconds=10)
        await clock.advance(3600)
        again = await queue.enqueue("work", key="k")
        assert (again.id, again.status) == (first.id, "duplicate")

    async def test_the_same_key_twice_in_one_batch_is_one_job(self, queue: Queue) -> None:
        receipts = await queue.enqueue_many([NewJob("work", key="k") for _ in range(3)])
        assert [_status(receipt) for receipt in receipts] == ["queued", "duplicate", "duplicate"]
        assert len(await ids(queue)) == 1

    async def test_a_freed_key_is_not_taken_back_by_the_job_that_had_it(self, queue: Queue) -> None:
        old = await failed(queue, key="k")
        new = await queue.enqueue("work", key="k")
        await queue.archive(old)
        assert (await queue.enqueue("work", key="k")).id == new.id

    @pytest.mark.parametrize("end", ["failed", "cancelled"])
    async def test_the_id_of_a_dead_job_begins_a_new_life(
        self, queue: Queue, clock: FakeClock, end: str
    ) -> None:
        old = await _dead(queue, end, payload="old", max_attempts=2)
        await clock.advance(5)
        again = await queue.enqueue("other", "new", id="phoenix", priority=3, max_attempts=7)
        assert (again.id, again.status, again.state) == ("phoenix", "queued", State.PENDING)
        assert again.life > old.life
        job = await claim_one(queue)
        assert (job.type, job.payload, job.priority) == ("other", "new", 3)
        assert (job.attempt, job.failures, job.errors, job.max_attempts) == (1, 0, (), 7)

    async def test_an_earlier_life_leaves_the_list_and_stays_in_history_and_totals(
        self, queue: Queue
    ) -> None:
        old = await _dead(queue, "failed")
        new = await queue.enqueue("work", id="phoenix")
        assert [job.life async for job in queue.jobs()] == [new.life]
        assert [job.life async for job in queue.jobs(state="failed")] == []
        assert await story(queue, "phoenix") == ["enqueued"]
        earlier = await queue.history("phoenix", life=old.life)
        assert [event.event for event in earlier] == ["enqueued", "claimed", "failed"]
        latest = await queue.history("phoenix", life=new.life)
        assert [event.event for event in latest] == ["enqueued"]
        assert await queue.history("phoenix", life=1) == []
        totals = (await queue.stats()).totals
        assert (totals.get("failed"), totals.get("pending")) == (1, 1)

    async def test_every_life_has_its_history(self, queue: Queue) -> None:
        lives = [(await _dead(queue, "cancelled")).life for _ in range(3)]
        assert lives == sorted(set(lives))
        for life in lives:
            events = await queue.history("phoenix", life=life)
            assert [event.event for event in events] == ["enqueued", "cancelled"]
            assert {event.life for event in events} == {life}

    async def test_an_old_lease_means_nothing_to_the_next_life(self, queue: Queue) -> None:
        zombie = await claimed(queue, id="phoenix")
        await queue.cancel("phoenix")
        await queue.enqueue("work", id="phoenix")
        with pytest.raises(LeaseLost):
            await queue.ack(zombie, "too late")
        await queue.ack(await claim_one(queue), "mine")
        assert (await found(queue, "phoenix")).result == "mine"

    @pytest.mark.parametrize("end", ["failed", "cancelled"])
    async def test_the_same_call_again_is_never_a_new_life(self, queue: Queue, end: str) -> None:
        await _dead(queue, end, operation="this call")
        again = await queue.enqueue("work", id="phoenix", operation="this call")
        assert (again.id, again.status, again.state) == ("phoenix", "duplicate", State(end))
        assert await queue.claim() == []

    async def test_the_calls_of_earlier_lives_are_remembered(self, queue: Queue) -> None:
        for number in range(8):
            await _dead(queue, "cancelled", operation=f"call {number}")
        for number in range(8):
            again = await queue.enqueue("work", id="phoenix", operation=f"call {number}")
            assert again.status == "duplicate"
        assert (await queue.enqueue("work", id="phoenix", operation="call 8")).status == "queued"

    async def test_the_same_call_without_an_id_is_the_same_job(self, queue: Queue) -> None:
        first = await queue.enqueue("work", operation="this call")
        again = await queue.enqueue("work", operation="this call")
        assert (again.id, again.status) == (first.id, "duplicate")
        await queue.cancel(first.id)
        again = await queue.enqueue("work", operation="this call")
        assert (again.id, again.status, again.state) == (first.id, "duplicate", State.CANCELLED)
        other = await queue.enqueue("work", operation="another call")
        assert (other.id != first.id, other.status) == (True, "queued")

    async def test_one_operation_covers_a_list(self, queue: Queue) -> None:
        jobs = [NewJob("work"), NewJob("work", id="mine"), NewJob("work")]
        first = await queue.enqueue_many(jobs, operation="this call")
        assert [_status(receipt) for receipt in first] == ["queued"] * 3
        for job in await queue.claim(3):
            await queue.nack(job, "boom", retry=False)
        again = await queue.enqueue_many(jobs, operation="this call")
        assert [_status(receipt) for receipt in again] == ["duplicate"] * 3
        assert list(map(_id, again)) == list(map(_id, first))
        other = await queue.enqueue_many(jobs, operation="another call")
        assert [_status(receipt) for receipt in other] == ["queued"] * 3

    async def test_a_call_is_known_for_a_while_after_its_job_has_left(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await queue.configure(result_ttl_seconds=0)
        await completed(queue, id="phoenix", operation="this call")
        assert await queue.get("phoenix") is None
        made = await queue.enqueue("work", operation="without an id")
        await queue.ack(await claim_one(queue))
        await clock.advance(REMEMBERED_SECONDS - 1)
        again = await queue.enqueue("work", id="phoenix", operation="this call")
        assert (again.id, again.status, again.state) == ("phoenix", "duplicate", None)
        again = await queue.enqueue("work", operation="without an id")
        assert (again.id, again.status, again.state) == (made.id, "duplicate", None)
        await clock.advance(1)
        again = await queue.enqueue("work", id="phoenix", operation="this call")
        assert again.status == "queued", "by now it is a new call"
        again = await queue.enqueue("work", operation="without an id")
        assert again.status == "queued"

    async def test_an_id_that_has_left_begins_a_new_life_by_another_call_at_once(
        self, queue: Queue
    ) -> None:
        await queue.configure(result_ttl_seconds=0)
        await completed(queue, id="phoenix", operation="first")
        assert (await queue.enqueue("work", id="phoenix", operation="second")).status == "queued"
        await queue.ack(await claim_one(queue))
        for operation in ("first", "second"):
            again = await queue.enqueue("work", id="phoenix", operation=operation)
            assert again.status == "duplicate"

    async def test_a_key_passes_to_the_next_life(self, queue: Queue, clock: FakeClock) -> None:
        await _dead(queue, "failed", key="k", unique_seconds=60)
        new = await queue.enqueue("work", id="phoenix", key="k")
        assert new.status == "queued"
        other = await queue.enqueue("work", key="k")
        assert (other.id, other.status, other.state) == ("phoenix", "duplicate", State.PENDING)
        await queue.ack(await claim_one(queue), "done")
        await clock.advance(59)
        assert (await queue.enqueue("work", key="k")).status == "completed"
        await clock.advance(1)
        assert (await queue.enqueue("work", key="k")).status == "queued"

    async def test_a_key_that_another_holds_begins_no_life(self, queue: Queue) -> None:
        old = await _dead(queue, "failed", key="k")
        holder = await queue.enqueue("work", key="k")
        again = await queue.enqueue("work", id="phoenix", key="k")
        assert (again.id, again.status, again.state) == (holder.id, "duplicate", State.PENDING)
        assert (await found(queue, "phoenix")).life == old.life

    async def test_call_joins_the_same_call(self, queue: Queue) -> None:
        async with meanwhile(queue.call("work", operation="this call")) as first:
            job = await claim_one(queue, wait_seconds=HANG_SECONDS)
            async with meanwhile(queue.call("work", operation="this call")) as second:
                await queue.ack(job, "once")
        assert (first.result(), second.result()) == ("once", "once")


async def _dead(queue: Queue, end: str, **options: Any) -> Receipt:
    """The receipt of a job called phoenix that ended in this way."""
    receipt = await queue.enqueue("work", id="phoenix", **options)
    assert receipt.status == "queued"
    if end == "cancelled":
        await queue.cancel("phoenix")
    else:
        await queue.nack(await claim_one(queue), "boom", retry=False)
    return receipt


def _id(receipt: object) -> str:
    assert isinstance(receipt, Receipt)
    return receipt.id


def _status(receipt: object) -> str:
    assert isinstance(receipt, Receipt)
    return receipt.status
