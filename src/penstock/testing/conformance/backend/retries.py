"""Failures: tried again with backoff until the attempts are used up, and every error is kept."""

from __future__ import annotations

import msgspec
import pytest

from penstock.client.queue import Queue
from penstock.errors import InvalidJob
from penstock.kernel.events import Failed, Retried
from penstock.kernel.job import State
from penstock.kernel.retry import RetryPolicy
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.steps import AT_ONCE, claim_one, claimed, found


class Retries:
    async def test_a_failed_attempt_is_tried_again_later(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        job = await claimed(queue)
        assert await queue.nack(job, "boom") is State.PENDING
        back = await found(queue, job.id)
        assert (back.state, back.failures, back.attempt) == (State.PENDING, 1, 1)
        assert (back.lease, back.lease_until, back.ended_at) == (None, None, None)
        assert await queue.claim() == [], "it came back at once"
        await clock.advance(1.25)
        assert (await claim_one(queue)).attempt == 2

    async def test_the_default_backoff_doubles_from_one_second_within_a_quarter(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        job = await claimed(queue, max_attempts=20)
        for seconds in (1, 2, 4, 8, 16, 32, 60, 60):
            await queue.nack(job, "boom")
            wait = (await found(queue, job.id)).run_at - clock.now()
            assert 0.75 * seconds <= wait <= 1.25 * seconds
            await clock.advance(1.25 * seconds)
            job = await claim_one(queue)

    async def test_the_backoff_is_spread(self, queue: Queue) -> None:
        waits = set()
        for _ in range(8):
            job = await claimed(queue)
            await queue.nack(job, "boom")
            waits.add((await found(queue, job.id)).run_at)
        assert len(waits) > 1

    async def test_a_policy_of_ones_own_is_followed(self, queue: Queue, clock: FakeClock) -> None:
        policy = RetryPolicy(initial_seconds=5, multiplier=3, max_seconds=50, jitter=0)
        job = await claimed(queue, retry=policy, max_attempts=9)
        for seconds in (5, 15, 45, 50, 50):
            await queue.nack(job, "boom")
            assert (await found(queue, job.id)).run_at == clock.now() + seconds
            await clock.advance(seconds)
            job = await claim_one(queue)

    @pytest.mark.parametrize("seconds", [0, 90])
    async def test_a_delay_that_is_given_replaces_the_backoff(
        self, queue: Queue, clock: FakeClock, seconds: float
    ) -> None:
        job = await claimed(queue)
        await queue.nack(job, "come back later", delay_seconds=seconds)
        back = await found(queue, job.id)
        assert (back.run_at, back.failures) == (clock.now() + seconds, 1)

    async def test_a_negative_delay_is_refused_and_the_lease_stays(self, queue: Queue) -> None:
        job = await claimed(queue)
        with pytest.raises(InvalidJob):
            await queue.nack(job, "boom", delay_seconds=-1)
        await queue.ack(job)

    async def test_after_the_last_attempt_the_job_has_failed_with_every_error_kept(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        began = clock.now()
        await queue.enqueue("work", id="job", max_attempts=3, retry=AT_ONCE)
        states = []
        for attempt in range(1, 4):
            job = await claim_one(queue)
            await clock.advance(1)
            states.append(await queue.nack(job, f"error {attempt}", kind=f"Kind{attempt}"))
        assert states == [State.PENDING, State.PENDING, State.FAILED]
        failed = await found(queue, "job")
        assert (failed.state, failed.failures, failed.attempt) == (State.FAILED, 3, 3)
        assert failed.ended_at == clock.now()
        assert [(e.attempt, e.at, e.kind, e.message) for e in failed.errors] == [
            (n, began + n, f"Kind{n}", f"error {n}") for n in (1, 2, 3)
        ]

    async def test_a_failed_job_is_not_claimed_again(self, queue: Queue, clock: FakeClock) -> None:
        job = await claimed(queue, max_attempts=1)
        assert await queue.nack(job, "boom") is State.FAILED
        await clock.advance(3600)
        assert await queue.claim() == []

    async def test_a_permanent_error_fails_at_once(self, queue: Queue) -> None:
        job = await claimed(queue, max_attempts=10)
        assert await queue.nack(job, "no such file", retry=False) is State.FAILED
        failed = await found(queue, job.id)
        assert (failed.state, failed.failures) == (State.FAILED, 1)
        assert failed.errors[0].message == "no such file"

    async def test_an_exception_can_be_given_as_the_error(self, queue: Queue) -> None:
        job = await claimed(queue, retry=AT_ONCE)
        await queue.nack(job, ValueError("wrong size"))
        assert "wrong size" in (await found(queue, job.id)).errors[0].message

    async def test_a_release_between_failures_does_not_forget_them(self, queue: Queue) -> None:
        job = await claimed(queue, retry=AT_ONCE, max_attempts=2)
        await queue.nack(job, "boom")
        await queue.release(await claim_one(queue))
        job = await claim_one(queue)
        assert (job.attempt, job.failures) == (3, 1)
        assert await queue.nack(job, "boom again") is State.FAILED

    async def test_a_retried_job_keeps_its_payload_and_its_place(self, queue: Queue) -> None:
        job = await claimed(queue, payload={"n": 1}, retry=AT_ONCE, priority=3, meta={"a": 1})
        await queue.nack(job, "boom")
        again = await claim_one(queue)
        assert (again.payload, again.priority, again.meta) == ({"n": 1}, 3, {"a": 1})

    async def test_the_event_that_ends_an_attempt_keeps_its_traceback(self, queue: Queue) -> None:
        await queue.enqueue("work", id="job", retry=AT_ONCE, max_attempts=2)
        await queue.nack(await claim_one(queue), "boom", traceback="in line 1\n")
        await queue.nack(await claim_one(queue), "bang", traceback="in line 2\n")
        history = await queue.history("job")
        told = [event async for event in queue.events("beginning", follow=False)]
        for events in (history, told):
            ends = [event for event in events if isinstance(event, Retried | Failed)]
            assert [event.traceback for event in ends] == ["in line 1\n", "in line 2\n"]

    async def test_tracebacks_are_read_back_and_in_no_summary(self, queue: Queue) -> None:
        await queue.enqueue("work", id="job", retry=AT_ONCE, max_attempts=2)
        await queue.nack(await claim_one(queue), "boom", traceback="in line 1\n")
        await queue.nack(await claim_one(queue), "bang", traceback="in line 2\n")
        failures = await queue.failures("job")
        told = [(one.attempt, one.message, one.traceback, one.vacuumed) for one in failures]
        assert told == [(1, "boom", "in line 1\n", False), (2, "bang", "in line 2\n", False)]
        end = (await queue.history("job"))[-1]
        assert isinstance(end, Failed)
        for summary in (await found(queue, "job"), end.errors):
            assert b"in line" not in msgspec.json.encode(summary, enc_hook=str)
        assert await queue.failures("nobody") == []

    async def test_an_attempt_that_died_has_no_traceback(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await claimed(queue, id="job")
        await clock.advance(33)
        await queue.expire()
        [failure] = await queue.failures("job")
        assert (failure.kind, failure.traceback, failure.vacuumed) == ("expired", None, False)

    async def test_a_traceback_of_any_length_is_kept_within_4_kib(self, queue: Queue) -> None:
        await queue.enqueue("work", id="job", retry=AT_ONCE)
        await queue.nack(await claim_one(queue), "boom", traceback="ä" * 9_000 + "the end")
        [failure] = await queue.failures("job")
        assert failure.traceback is not None
        assert len(failure.traceback.encode()) <= 4_096
        assert failure.traceback.endswith("ä" + "the end")

    async def test_an_exception_brings_its_traceback_along(self, queue: Queue) -> None:
        await queue.enqueue("work", id="job", retry=AT_ONCE)
        job = await claim_one(queue)
        try:
            _divide()
        except ZeroDivisionError as error:
            await queue.nack(job, error)
        [failure] = await queue.failures("job")
        assert failure.traceback is not None
        assert "in _divide" in failure.traceback
        assert "ZeroDivisionError" in failure.traceback

    async def test_a_nack_leaves_state_and_due_time_in_the_job(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await queue.enqueue("work", id="job", max_attempts=2)
        job = await claim_one(queue)
        for _ in range(2):
            assert await queue.nack(job, "boom", delay_seconds=7) is State.PENDING
            assert (job.state, job.run_at) == (State.PENDING, clock.now() + 7)
        await clock.advance(7)
        job = await claim_one(queue)
        await queue.nack(job, "boom")
        assert job.state is State.FAILED

    async def test_what_a_job_does_not_say_its_queue_says(self, queue: Queue) -> None:
        policy = RetryPolicy(initial_seconds=7, jitter=0)
        await queue.configure(
            default_max_attempts=2, default_timeout_seconds=9, default_retry=policy
        )
        await queue.enqueue("work", id="silent")
        await queue.enqueue(
            "work", id="outspoken", max_attempts=5, timeout_seconds=300, retry=RetryPolicy()
        )
        silent, outspoken = await found(queue, "silent"), await found(queue, "outspoken")
        assert (silent.max_attempts, silent.timeout_seconds, silent.retry) == (2, 9.0, policy)
        assert (outspoken.max_attempts, outspoken.timeout_seconds) == (5, 300.0)
        assert outspoken.retry == RetryPolicy()
        # What was accepted stays as it was.
        await queue.configure(default_max_attempts=9)
        assert (await found(queue, "silent")).max_attempts == 2


def _divide() -> None:
    _ = 1 / 0
