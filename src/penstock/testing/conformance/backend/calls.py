"""Request and response: a call waits for the end of its job and tells what it was."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.queue import Queue
from penstock.errors import CallTimeout, JobCancelled, JobFailed
from penstock.kernel.commands import Receipt
from penstock.kernel.job import State
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.handles import Handles
from penstock.testing.conformance.backend.steps import (
    AT_ONCE,
    HANG_SECONDS,
    claim_one,
    claimed,
    completed,
    found,
    meanwhile,
)

WAIT_SECONDS = 20.0


class Calls:
    async def test_a_call_returns_the_result(self, queue: Queue) -> None:
        async with meanwhile(queue.call("double", 21)) as call:
            job = await claim_one(queue, wait_seconds=WAIT_SECONDS)
            await queue.ack(job, job.payload * 2)
        assert call.result() == 42

    async def test_a_call_takes_the_options_of_enqueue(self, queue: Queue) -> None:
        async with meanwhile(queue.call("work", id="mine", queue="images", priority=3)):
            job = await claim_one(queue, wait_seconds=WAIT_SECONDS)
            assert (job.id, job.queue, job.priority) == ("mine", "images", 3)
            await queue.ack(job)

    async def test_a_call_is_answered_by_a_worker_at_another_handle(
        self, queue: Queue, handles: Handles
    ) -> None:
        other = await handles.open()
        async with meanwhile(queue.call("work")) as call:
            await other.ack(await claim_one(other, wait_seconds=WAIT_SECONDS), "from afar")
        assert call.result() == "from afar"

    async def test_a_call_outlasts_the_failures_before_the_success(self, queue: Queue) -> None:
        async with meanwhile(queue.call("work", retry=AT_ONCE)) as call:
            await queue.nack(await claim_one(queue, wait_seconds=WAIT_SECONDS), "boom")
            await queue.ack(await claim_one(queue, wait_seconds=WAIT_SECONDS), "in the end")
        assert call.result() == "in the end"

    async def test_a_call_of_a_job_that_fails_raises_its_error(self, queue: Queue) -> None:
        async def call() -> JobFailed:
            with pytest.raises(JobFailed) as raised:
                await queue.call("work", id="job")
            return raised.value

        async with meanwhile(call()) as failing:
            job = await claim_one(queue, wait_seconds=WAIT_SECONDS)
            await queue.nack(
                job, "no such file", kind="OSError", retry=False, traceback="in line 7"
            )
        error = failing.result()
        assert (error.id, error.kind, error.error) == ("job", "OSError", "no such file")
        assert error.traceback == "in line 7"

    async def test_a_call_of_a_job_that_is_cancelled_says_so(self, queue: Queue) -> None:
        async def call() -> str:
            with pytest.raises(JobCancelled) as raised:
                await queue.call("work", id="job")
            return raised.value.id

        async with meanwhile(call()) as failing:
            await claim_one(queue, wait_seconds=WAIT_SECONDS)
            await queue.cancel("job")
        assert failing.result() == "job"

    async def test_a_call_waits_no_longer_than_it_said_and_the_job_goes_on(
        self, queue: Queue
    ) -> None:
        with pytest.raises(CallTimeout) as raised:
            await queue.call("work", id="job", timeout_seconds=0.05)
        assert isinstance(raised.value, TimeoutError)
        assert (raised.value.id, raised.value.timeout_seconds) == ("job", 0.05)
        await queue.ack(await claim_one(queue), "late")
        assert (await found(queue, "job")).result == "late"

    async def test_a_cached_result_is_returned_at_once(self, queue: Queue) -> None:
        await completed(queue, "known", id="job")
        assert await queue.call("work", id="job", timeout_seconds=HANG_SECONDS) == "known"

    async def test_a_call_joins_a_duplicate_that_is_under_way(self, queue: Queue) -> None:
        async with (
            meanwhile(queue.call("work", id="job")) as first,
            meanwhile(queue.call("work", id="job")) as second,
        ):
            await queue.ack(await claim_one(queue, wait_seconds=WAIT_SECONDS), "shared")
        assert (first.result(), second.result()) == ("shared", "shared")

    async def test_a_call_joins_the_holder_of_its_key(self, queue: Queue) -> None:
        await queue.enqueue("work", id="holder", key="k")
        is_joined = asyncio.Event()

        async def enqueue_and_tell() -> Receipt:
            receipt = await queue.enqueue("work", id="caller", key="k")
            is_joined.set()
            return receipt

        async with meanwhile(queue.answer("caller", enqueue_and_tell, HANG_SECONDS)) as call:
            job = await claim_one(queue)
            # After its end the key would be free, and the call a job of its own.
            await is_joined.wait()
            await queue.ack(job, "the holder's")
        assert call.result() == "the holder's"

    async def test_a_call_joins_a_job_of_another_handle(
        self, queue: Queue, handles: Handles
    ) -> None:
        other = await handles.open()
        await other.enqueue("work", id="job")
        async with meanwhile(queue.call("work", id="job")) as call:
            await other.ack(await claim_one(other), "theirs")
        assert call.result() == "theirs"

    async def test_the_same_call_of_a_cancelled_job_says_so_at_once(self, queue: Queue) -> None:
        await queue.enqueue("work", id="job", operation="this call")
        await queue.cancel("job")
        with pytest.raises(JobCancelled):
            await queue.call("work", id="job", operation="this call", timeout_seconds=HANG_SECONDS)

    async def test_a_call_of_a_failed_id_tries_it_again(self, queue: Queue) -> None:
        await queue.enqueue("work", id="job")
        await queue.nack(await claim_one(queue), "boom", retry=False)
        async with meanwhile(queue.call("work", id="job")) as call:
            await queue.ack(await claim_one(queue, wait_seconds=WAIT_SECONDS), "better")
        assert call.result() == "better"

    async def test_a_call_is_not_answered_by_an_earlier_life_of_its_id(self, queue: Queue) -> None:
        await queue.configure(result_ttl_seconds=0)
        earlier = await claimed(queue, id="job")

        async def enqueue_after_its_end() -> Receipt:
            await queue.ack(earlier, "of the earlier life")
            return await queue.enqueue("work", id="job")

        async with meanwhile(queue.answer("job", enqueue_after_its_end, WAIT_SECONDS)) as call:
            job = await claim_one(queue, wait_seconds=WAIT_SECONDS)
            assert job.life > earlier.life
            assert not call.done()
            await queue.ack(job, "of this life")
        assert call.result() == "of this life"

    async def test_a_call_is_not_answered_by_the_failure_that_it_opens_again(
        self, queue: Queue
    ) -> None:
        earlier = await claimed(queue, id="job")

        async def enqueue_after_its_failure() -> Receipt:
            await queue.nack(earlier, "boom", retry=False)
            return await queue.enqueue("work", id="job")

        async with meanwhile(queue.answer("job", enqueue_after_its_failure, WAIT_SECONDS)) as call:
            await queue.ack(await claim_one(queue, wait_seconds=WAIT_SECONDS), "better")
        assert call.result() == "better"

    async def test_a_receipt_says_which_life_it_is_about(self, queue: Queue) -> None:
        first = await queue.enqueue("work", id="job", key="k")
        again = await queue.enqueue("work", id="job")
        by_key = await queue.enqueue("work", key="k")
        assert first.life == again.life == by_key.life == (await found(queue, "job")).life
        await queue.ack(await claim_one(queue))
        assert (await queue.enqueue("work", id="job")).life == first.life

    async def test_a_cancelled_caller_does_not_take_the_job_along(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        async with meanwhile(queue.call("work", id="job")) as call:
            job = await claim_one(queue, wait_seconds=WAIT_SECONDS)
            call.cancel()
        assert call.cancelled()
        await queue.ack(job)
        assert (await found(queue, "job")).state is State.COMPLETED

    async def test_many_calls_at_once_get_their_own_results(self, queue: Queue) -> None:
        async def work() -> None:
            done = 0
            while done < 20:
                jobs = await queue.claim(20, wait_seconds=WAIT_SECONDS)
                await asyncio.gather(*(queue.ack(job, job.payload**2) for job in jobs))
                done += len(jobs)

        async with meanwhile(work()):
            results = await asyncio.gather(*(queue.call("square", n) for n in range(20)))
        assert results == [n**2 for n in range(20)]
