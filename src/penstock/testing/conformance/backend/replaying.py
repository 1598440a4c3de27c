"""Terminal is final, unless somebody opens a job again; and out of sight, unless asked for."""

from __future__ import annotations

import pytest

from penstock.client.queue import Queue
from penstock.errors import JobNotFound, KeyHeld, WrongState
from penstock.kernel.job import State
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.steps import (
    AT_ONCE,
    claim_one,
    claimed,
    completed,
    failed,
    found,
    ids,
    story,
)


class Replaying:
    async def test_a_failed_job_can_be_opened_again(self, queue: Queue, clock: FakeClock) -> None:
        id = await failed(queue)
        await clock.advance(60)
        assert await queue.replay(id) is State.PENDING
        job = await found(queue, id)
        assert (job.state, job.failures, job.attempt) == (State.PENDING, 0, 1)
        assert (job.run_at, job.ended_at) == (clock.now(), None)
        assert (await claim_one(queue)).attempt == 2, "`attempt` goes on counting"

    async def test_a_cancelled_job_can_be_opened_again(self, queue: Queue) -> None:
        receipt = await queue.enqueue("work", {"n": 1})
        await queue.cancel(receipt.id)
        assert await queue.replay(receipt.id) is State.PENDING
        job = await claim_one(queue)
        assert (job.id, job.payload) == (receipt.id, {"n": 1})

    async def test_a_replayed_job_has_all_its_attempts_again(self, queue: Queue) -> None:
        job = await claimed(queue, max_attempts=2, retry=AT_ONCE)
        await queue.nack(job, "first")
        await queue.nack(await claim_one(queue), "second")
        await queue.replay(job.id)
        assert await queue.nack(await claim_one(queue), "third") is State.PENDING
        assert await queue.nack(await claim_one(queue), "fourth") is State.FAILED
        errors = (await found(queue, job.id)).errors
        assert [error.message for error in errors] == ["first", "second", "third", "fourth"]

    async def test_a_completed_job_can_not_be_replayed(self, queue: Queue) -> None:
        id = await completed(queue)
        with pytest.raises(WrongState, match="completed"):
            await queue.replay(id)
        assert (await found(queue, id)).state is State.COMPLETED

    async def test_an_unknown_job_can_not_be_replayed(self, queue: Queue) -> None:
        with pytest.raises(JobNotFound):
            await queue.replay("nobody")

    async def test_replaying_what_is_open_changes_nothing(self, queue: Queue) -> None:
        id = await failed(queue)
        await queue.replay(id)
        before = await story(queue, id)
        assert await queue.replay(id) is State.PENDING
        await claim_one(queue)
        assert await queue.replay(id) is State.RUNNING
        assert await story(queue, id) == [*before, "claimed"]

    async def test_an_old_lease_does_not_come_back_with_the_job(self, queue: Queue) -> None:
        job = await claimed(queue)
        await queue.nack(job, "boom", retry=False)
        await queue.replay(job.id)
        current = await claim_one(queue)
        await queue.ack(current, "mine")
        assert (await found(queue, job.id)).result == "mine"

    async def test_a_job_whose_key_is_held_by_another_can_not_be_replayed(
        self, queue: Queue
    ) -> None:
        id = await failed(queue, key="k")
        holder = await queue.enqueue("work", key="k")
        with pytest.raises(KeyHeld) as raised:
            await queue.replay(id)
        assert (raised.value.key, raised.value.holder) == ("k", holder.id)
        assert (await found(queue, id)).state is State.FAILED

    async def test_a_replayed_job_holds_its_key_again(self, queue: Queue) -> None:
        id = await failed(queue, key="k")
        await queue.replay(id)
        receipt = await queue.enqueue("work", key="k")
        assert (receipt.status, receipt.id) == ("duplicate", id)

    async def test_replay_opens_the_latest_life(self, queue: Queue) -> None:
        id = await failed(queue, payload="old", id="phoenix")
        await queue.enqueue("work", "new", id=id)
        await queue.nack(await claim_one(queue), "again", retry=False)
        assert await queue.replay(id) is State.PENDING
        job = await claim_one(queue)
        assert (job.payload, job.attempt) == ("new", 2)

    async def test_an_archived_job_is_out_of_sight_until_asked_for(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        id = await failed(queue)
        await queue.archive(id)
        assert await ids(queue) == []
        assert await ids(queue, archived=True) == [id]
        job = await found(queue, id)
        assert (job.state, job.archived_at) == (State.FAILED, clock.now())

    async def test_an_archived_job_can_be_brought_back(self, queue: Queue) -> None:
        id = await failed(queue)
        await queue.archive(id)
        await queue.unarchive(id)
        assert await ids(queue) == [id]
        assert (await found(queue, id)).archived_at is None

    @pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
    async def test_every_ended_job_can_be_archived(self, queue: Queue, end: str) -> None:
        id = (await queue.enqueue("work")).id
        if end != "cancelled":
            job = await claim_one(queue)
            await (queue.ack(job) if end == "completed" else queue.nack(job, "no", retry=False))
        else:
            await queue.cancel(id)
        await queue.archive(id)
        assert await ids(queue, archived=True, state=end) == [id]

    async def test_archiving_twice_is_archiving_once(self, queue: Queue) -> None:
        id = await failed(queue)
        await queue.archive(id)
        await queue.archive(id)
        await queue.unarchive(id)
        await queue.unarchive(id)
        assert (await story(queue, id))[-2:] == ["archived", "unarchived"]

    async def test_a_job_that_has_not_ended_can_not_be_archived(self, queue: Queue) -> None:
        receipt = await queue.enqueue("work")
        with pytest.raises(WrongState, match="pending"):
            await queue.archive(receipt.id)
        await claim_one(queue)
        with pytest.raises(WrongState, match="running"):
            await queue.archive(receipt.id)

    async def test_an_unknown_job_can_be_neither_archived_nor_brought_back(
        self, queue: Queue
    ) -> None:
        with pytest.raises(JobNotFound):
            await queue.archive("nobody")
        with pytest.raises(JobNotFound):
            await queue.unarchive("nobody")

    async def test_a_replayed_job_is_no_longer_archived(self, queue: Queue) -> None:
        id = await failed(queue)
        await queue.archive(id)
        await queue.replay(id)
        assert await ids(queue, state="pending") == [id]
