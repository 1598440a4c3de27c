"""Claims: exclusive, in order, and only of what was asked for."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from penstock.client.newjob import NewJob
from penstock.client.queue import Queue
from penstock.kernel.job import Job, State
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.handles import Handles
from penstock.testing.conformance.backend.steps import AT_ONCE, claim_one, claimed, found


class Claiming:
    async def test_a_claim_gives_a_running_job_with_a_lease(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await queue.enqueue("work", {"n": 1}, id="job")
        await clock.advance(5)
        job = await claim_one(queue, worker="w1")
        assert (job.id, job.state, job.payload) == ("job", State.RUNNING, {"n": 1})
        assert (job.attempt, job.failures, job.worker) == (1, 0, "w1")
        assert job.started_at == clock.now()
        assert job.lease_until == clock.now() + 30
        assert job.lease is not None
        assert len(job.lease.secret) >= 32, "128 random bits"

    async def test_everybody_sees_that_a_claimed_job_runs(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        job = await claim_one_of(queue, lease_seconds=7.5)
        seen = await found(queue, job.id)
        assert (seen.state, seen.attempt, seen.worker) == (State.RUNNING, 1, "w1")
        assert seen.lease_until == clock.now() + 7.5

    async def test_an_empty_queue_gives_nothing(self, queue: Queue) -> None:
        assert await queue.claim() == []

    async def test_a_claim_takes_at_most_as_many_as_it_asked_for(self, queue: Queue) -> None:
        await queue.enqueue_many([NewJob("work")] * 5)
        assert [len(await queue.claim(3)) for _ in range(3)] == [3, 2, 0]

    @pytest.mark.parametrize("count", [0, -1])
    async def test_a_claim_of_less_than_one_is_a_value_error(
        self, queue: Queue, count: int
    ) -> None:
        await queue.enqueue("work", id="job")
        with pytest.raises(ValueError, match="at least one"):
            await queue.claim(count)
        assert (await found(queue, "job")).state is State.PENDING

    async def test_jobs_of_one_priority_are_claimed_first_in_first_out(self, queue: Queue) -> None:
        for n in range(5):
            await queue.enqueue("work", id=str(n))
        await queue.enqueue_many([NewJob("work", id=str(n)) for n in range(5, 10)])
        _expect_order(queue, await queue.claim(10), [str(n) for n in range(10)])

    async def test_lower_priorities_go_first(self, queue: Queue) -> None:
        for id, priority in [("c", 5), ("b", 0), ("d", 6), ("a", -3), ("b2", 0)]:
            await queue.enqueue("work", id=id, priority=priority)
        _expect_order(queue, await queue.claim(5), ["a", "b", "b2", "c", "d"])

    async def test_priority_goes_before_waiting_time(self, queue: Queue, clock: FakeClock) -> None:
        await queue.enqueue("work", id="old", priority=1)
        await clock.advance(3600)
        await queue.enqueue("work", id="urgent", priority=0)
        _expect_order(queue, await queue.claim(2), ["urgent", "old"])

    async def test_within_a_priority_what_came_due_first_goes_first(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await queue.enqueue("work", id="third", delay_seconds=20)
        await queue.enqueue("work", id="second", delay_seconds=10)
        await queue.enqueue("work", id="first")
        await clock.advance(60)
        await queue.enqueue("work", id="fourth")
        _expect_order(queue, await queue.claim(4), ["first", "second", "third", "fourth"])

    async def test_a_time_in_the_past_does_not_jump_the_line(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await queue.enqueue("work", id="first")
        await clock.advance(1)
        await queue.enqueue("work", id="second", run_at=clock.now() - 3600)
        _expect_order(queue, await queue.claim(2), ["first", "second"])

    async def test_the_order_is_one_over_all_queues_and_types(self, queue: Queue) -> None:
        places = [("a", "x"), ("b", "y"), ("a", "y"), ("b", "x"), ("a", "x"), ("c", "z")]
        for n, (name, type) in enumerate(places):
            await queue.enqueue(type, id=str(n), queue=name)
        await queue.enqueue("z", id="urgent", queue="c", priority=-1)
        order = ["urgent", *map(str, range(6))]
        _expect_order(queue, await queue.claim(7), order)

    async def test_only_the_named_queues_are_claimed_from(self, queue: Queue) -> None:
        for name in ("images", "mail", "images", "reports"):
            await queue.enqueue("work", queue=name)
        jobs = await queue.claim(9, queues=["images", "reports", "nothing here"])
        assert sorted(job.queue for job in jobs) == ["images", "images", "reports"]
        assert [job.queue for job in await queue.claim(9)] == ["mail"]

    async def test_only_the_named_types_are_claimed(self, queue: Queue) -> None:
        for type in ("resize", "crop", "resize", "send"):
            await queue.enqueue(type)
        jobs = await queue.claim(9, types=["resize", "send"])
        assert sorted(job.type for job in jobs) == ["resize", "resize", "send"]

    async def test_queues_and_types_can_be_named_together(self, queue: Queue) -> None:
        for name in ("images", "mail"):
            for type in ("resize", "send"):
                await queue.enqueue(type, queue=name)
        jobs = await queue.claim(9, queues=["mail"], types=["resize"])
        assert [(job.queue, job.type) for job in jobs] == [("mail", "resize")]

    async def test_no_two_claims_get_the_same_job(self, queue: Queue) -> None:
        await queue.enqueue_many([NewJob("work") for _ in range(20)])
        claims = await asyncio.gather(*(queue.claim(3) for _ in range(10)))
        claimed_ids = [job.id for jobs in claims for job in jobs]
        assert len(claimed_ids) == len(set(claimed_ids)) == 20

    async def test_no_two_handles_get_the_same_job(self, handles: Handles) -> None:
        first, second, third = await handles.open_more(3)
        await first.enqueue_many([NewJob("work") for _ in range(20)])
        claims = await asyncio.gather(
            *(handle.claim(2) for handle in (first, second, third) for _ in range(5))
        )
        claimed_ids = [job.id for jobs in claims for job in jobs]
        assert len(claimed_ids) == len(set(claimed_ids)) == 20

    async def test_the_fencing_number_grows_over_the_whole_queue(self, queue: Queue) -> None:
        await queue.enqueue_many([NewJob("work", retry=AT_ONCE) for _ in range(4)])
        jobs = await queue.claim(2)
        await queue.nack(jobs[0], "boom")
        jobs += await queue.claim(2)
        jobs += [await claimed(queue, type="other", queue="elsewhere")]
        jobs += await queue.claim(9)
        fences = [_fence(job) for job in jobs]
        assert len(set(fences)) == 6
        if queue.capabilities.events == "ordered":
            assert all(earlier < later for earlier, later in pairwise(fences))
        retried = [_fence(job) for job in jobs if job.id == jobs[0].id]
        assert retried == sorted(retried), "whoever holds a job later has the higher fence"
        assert len(retried) == 2

    async def test_two_claims_at_once_with_one_operation_get_the_same_leases(
        self, queue: Queue
    ) -> None:
        await queue.enqueue_many([NewJob("work") for _ in range(6)])
        one, other = await asyncio.gather(
            queue.claim(2, operation="mine"), queue.claim(2, operation="mine")
        )
        assert {job.id: job.lease for job in one} == {job.id: job.lease for job in other}
        assert len(one) == (await queue.stats()).totals["running"] == 2

    async def test_the_same_claim_again_gives_the_same_leases(self, queue: Queue) -> None:
        await queue.enqueue_many([NewJob("work") for _ in range(5)])
        jobs = await queue.claim(3, operation="mine")
        again = await queue.claim(3, operation="mine")
        assert [(job.id, job.lease) for job in again] == [(job.id, job.lease) for job in jobs]
        assert [job.attempt for job in again] == [1, 1, 1]
        assert len(await queue.claim(9)) == 2, "the repetition took more"

    async def test_a_claim_can_be_repeated_through_another_handle(
        self, queue: Queue, handles: Handles
    ) -> None:
        other = await handles.open()
        await queue.enqueue("work")
        job = await claim_one(queue, operation="mine")
        again = await claim_one(other, operation="mine")
        assert (again.id, again.lease) == (job.id, job.lease)
        await other.ack(again)
        assert (await found(queue, job.id)).state is State.COMPLETED

    async def test_a_repeated_claim_gives_only_what_is_still_held(self, queue: Queue) -> None:
        await queue.enqueue_many([NewJob("work") for _ in range(3)])
        first, second = await queue.claim(2, operation="mine")
        await queue.ack(first)
        assert [job.id for job in await queue.claim(2, operation="mine")] == [second.id]


async def claim_one_of(queue: Queue, lease_seconds: float) -> Job:
    await queue.enqueue("work")
    return await claim_one(queue, worker="w1", lease_seconds=lease_seconds)


def _expect_order(queue: Queue, jobs: list[Job], order: list[str]) -> None:
    found_order = [job.id for job in jobs]
    if queue.capabilities.order == "strict":
        assert found_order == order
    else:
        assert sorted(found_order) == sorted(order)


def _fence(job: Job) -> int:
    assert job.lease is not None
    return job.lease.fence
