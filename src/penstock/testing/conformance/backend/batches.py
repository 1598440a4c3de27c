"""Lists: applied in order, each item with its own outcome, and none at all for an empty one."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.newjob import NewJob
from penstock.client.queue import Queue
from penstock.errors import (
    InvalidInput,
    InvalidJob,
    JobCancelled,
    JobNotFound,
    LeaseLost,
    PayloadInvalid,
    WrongState,
)
from penstock.kernel.job import Job, State
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.steps import (
    completed,
    failed,
    found,
    ids,
)


class Batches:
    async def test_a_list_of_acks_gives_one_outcome_each(self, queue: Queue) -> None:
        jobs = await _claimed(queue, 4)
        await queue.release(jobs[1])
        await queue.cancel(jobs[2].id)
        outcomes = await queue.ack(jobs, "same for all")
        assert [type(outcome) for outcome in outcomes] == [
            type(None), LeaseLost, JobCancelled, type(None),
        ]  # fmt: skip
        results = [(await found(queue, job.id)).result for job in jobs]
        assert results == ["same for all", None, None, "same for all"]

    async def test_a_list_of_heartbeats_gives_one_outcome_each(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        jobs = await _claimed(queue, 3)
        await queue.ack(jobs[0])
        outcomes = await queue.heartbeat(jobs, progress=0.5, lease_seconds=60)
        assert isinstance(outcomes[0], LeaseLost)
        assert outcomes[1:] == [clock.now() + 60] * 2
        assert [job.lease_until for job in jobs[1:]] == [clock.now() + 60] * 2

    async def test_a_list_of_nacks_gives_one_outcome_each(self, queue: Queue) -> None:
        await queue.enqueue("work", max_attempts=1)
        jobs = [*await queue.claim(), *await _claimed(queue, 2)]
        await queue.ack(jobs[2])
        outcomes = await queue.nack(jobs, "boom")
        assert outcomes[:2] == [State.FAILED, State.PENDING]
        assert isinstance(outcomes[2], LeaseLost)

    async def test_lists_of_releases_and_snoozes_give_one_outcome_each(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        jobs = await _claimed(queue, 3)
        await queue.ack(jobs[0])
        released = await queue.release(jobs[:2])
        assert isinstance(released[0], LeaseLost)
        assert released[1] is None
        snoozed = await queue.snooze([jobs[0], jobs[2]], clock.now() + 60)
        assert isinstance(snoozed[0], LeaseLost)
        assert snoozed[1] is None

    async def test_a_list_of_cancels_gives_one_word_each(self, queue: Queue) -> None:
        done, dead = await completed(queue), await failed(queue)
        waiting = (await queue.enqueue("work")).id
        outcomes = await queue.cancel([done, "nobody", waiting, dead, waiting])
        assert outcomes == ["completed", "not_found", "cancelled", "failed", "cancelled"]

    async def test_a_list_of_replays_gives_one_outcome_each(self, queue: Queue) -> None:
        done, dead = await completed(queue), await failed(queue)
        outcomes = await queue.replay([done, "nobody", dead, dead])
        assert isinstance(outcomes[0], WrongState)
        assert isinstance(outcomes[1], JobNotFound)
        assert outcomes[2:] == [State.PENDING, State.PENDING]

    async def test_lists_to_archive_and_bring_back_give_one_outcome_each(
        self, queue: Queue
    ) -> None:
        waiting, dead = (await queue.enqueue("work", queue="a")).id, await failed(queue, type="b")
        archived = await queue.archive([waiting, dead, "nobody"])
        assert isinstance(archived[0], WrongState)
        assert archived[1] is None
        assert isinstance(archived[2], JobNotFound)
        back = await queue.unarchive([dead, "nobody"])
        assert back[0] is None
        assert isinstance(back[1], JobNotFound)

    async def test_one_that_fails_raises_and_a_list_of_one_returns(self, queue: Queue) -> None:
        [job] = await _claimed(queue, 1)
        await queue.release(job)
        with pytest.raises(LeaseLost):
            await queue.ack(job)
        assert [type(outcome) for outcome in await queue.ack([job])] == [LeaseLost]

    async def test_items_are_applied_in_order(self, queue: Queue) -> None:
        [job] = await _claimed(queue, 1)
        assert await queue.ack([job, job], "once") == [None, None]
        assert [event.event for event in await queue.history(job.id)] == [
            "enqueued", "claimed", "completed",
        ]  # fmt: skip

    async def test_an_empty_list_does_nothing(self, queue: Queue) -> None:
        await queue.enqueue("work")
        before = (await queue.stats()).commit
        nothing: list[Job] = []
        assert await queue.enqueue_many([]) == []
        assert await queue.ack(nothing) == []
        assert await queue.nack(nothing, "boom") == []
        assert await queue.heartbeat(nothing) == []
        assert await queue.release(nothing) == []
        assert await queue.snooze(nothing, 0.0) == []
        assert await queue.cancel([]) == []
        assert await queue.replay([]) == []
        assert await queue.archive([]) == []
        assert await queue.unarchive([]) == []
        assert await queue.get([]) == []
        assert (await queue.stats()).commit == before

    async def test_a_batch_with_a_bad_item_is_refused_as_a_whole(self, queue: Queue) -> None:
        bad_name, bad_payload = NewJob("no/slashes"), NewJob("work", object())
        with pytest.raises(InvalidJob):
            await queue.enqueue_many([NewJob("work"), bad_name])
        with pytest.raises(PayloadInvalid):
            await queue.enqueue_many([NewJob("work"), bad_payload])
        assert await ids(queue) == []

    async def test_a_batch_can_be_too_large(self, queue: Queue) -> None:
        with pytest.raises(InvalidInput, match="at most 100,000"):
            await queue.enqueue_many([NewJob("work")] * 100_001)
        with pytest.raises(InvalidInput, match="at most 100,000"):
            await queue.claim(100_001)
        assert await ids(queue) == []

    async def test_calls_at_the_same_time_do_not_harm_each_other(self, queue: Queue) -> None:
        jobs = await _claimed(queue, 10)
        for job in jobs[::2]:
            await queue.cancel(job.id)
        outcomes = await asyncio.gather(*map(queue.ack, jobs), return_exceptions=True)
        assert [isinstance(outcome, JobCancelled) for outcome in outcomes] == [True, False] * 5
        states = {job.id: job.state async for job in queue.jobs()}
        assert [states[job.id] for job in jobs] == [State.CANCELLED, State.COMPLETED] * 5


async def _claimed(queue: Queue, count: int) -> list[Job]:
    await queue.enqueue_many([NewJob("batch") for _ in range(count)])
    jobs = await queue.claim(count, types=["batch"])
    assert len(jobs) == count
    return jobs
