"""Claims that wait: woken by what happens, not by asking again and again."""

from __future__ import annotations

from penstock.client.newjob import NewJob
from penstock.client.queue import Queue
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.handles import Handles
from penstock.testing.conformance.backend.steps import AT_ONCE, claim_one, claimed, meanwhile

LONG_SECONDS = 600.0
SHORT_SECONDS = 0.05


class Waiting:
    async def test_a_claim_does_not_wait_for_more_than_there_is(self, queue: Queue) -> None:
        await queue.enqueue("work")
        assert len(await queue.claim(5, wait_seconds=LONG_SECONDS)) == 1

    async def test_a_claim_waits_no_longer_than_it_said(self, queue: Queue) -> None:
        assert await queue.claim(wait_seconds=SHORT_SECONDS) == []

    async def test_a_waiting_claim_is_woken_by_a_new_job(self, queue: Queue) -> None:
        async with meanwhile(queue.claim(wait_seconds=LONG_SECONDS)) as claim:
            await queue.enqueue("work", id="new")
        assert [job.id for job in claim.result()] == ["new"]

    async def test_a_waiting_claim_is_woken_by_a_job_from_another_handle(
        self, queue: Queue, handles: Handles
    ) -> None:
        other = await handles.open()
        async with meanwhile(queue.claim(wait_seconds=LONG_SECONDS)) as claim:
            await other.enqueue("work", id="new")
        assert [job.id for job in claim.result()] == ["new"]

    async def test_a_waiting_claim_is_woken_when_a_job_comes_due(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        with clock.flowing():
            await queue.enqueue("work", id="later", delay_seconds=SHORT_SECONDS)
            async with meanwhile(queue.claim(wait_seconds=LONG_SECONDS)) as claim:
                pass
        assert [job.id for job in claim.result()] == ["later"]

    async def test_a_waiting_claim_is_woken_when_a_lease_dies(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await queue.configure(clock_skew_seconds=0)
        with clock.flowing():
            await queue.enqueue("work", id="dropped", retry=AT_ONCE)
            await claim_one(queue, lease_seconds=SHORT_SECONDS)
            async with meanwhile(queue.claim(wait_seconds=LONG_SECONDS)) as claim:
                pass
        assert [job.attempt for job in claim.result()] == [2]

    async def test_a_waiting_claim_is_woken_by_a_release(self, queue: Queue) -> None:
        job = await claimed(queue)
        async with meanwhile(queue.claim(wait_seconds=LONG_SECONDS)) as claim:
            await queue.release(job)
        assert [again.id for again in claim.result()] == [job.id]

    async def test_a_waiting_claim_is_woken_when_a_queue_is_resumed(self, queue: Queue) -> None:
        await queue.pause()
        await queue.enqueue("work", id="waiting")
        async with meanwhile(queue.claim(wait_seconds=LONG_SECONDS)) as claim:
            await queue.resume()
        assert [job.id for job in claim.result()] == ["waiting"]

    async def test_a_waiting_claim_lets_what_it_did_not_ask_for_pass(self, queue: Queue) -> None:
        async with meanwhile(queue.claim(queues=["b"], wait_seconds=LONG_SECONDS)) as claim:
            await queue.enqueue("work", queue="a")
            await queue.enqueue("work", queue="b", id="wanted")
        assert [job.id for job in claim.result()] == ["wanted"]

    async def test_of_several_waiting_claims_each_gets_its_own_jobs(self, queue: Queue) -> None:
        async with (
            meanwhile(queue.claim(wait_seconds=LONG_SECONDS)) as first,
            meanwhile(queue.claim(wait_seconds=LONG_SECONDS)) as second,
        ):
            await queue.enqueue_many([NewJob("work", id="a"), NewJob("work", id="b")])
        assert sorted(job.id for job in first.result() + second.result()) == ["a", "b"]
