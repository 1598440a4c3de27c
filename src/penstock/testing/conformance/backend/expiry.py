"""Leases that run out: dead for everyone at one moment, recorded or not."""

from __future__ import annotations

from typing import Final

import pytest

from penstock.client.newjob import NewJob
from penstock.client.queue import Queue
from penstock.errors import LeaseLost
from penstock.kernel.job import State
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.handles import Handles
from penstock.testing.conformance.backend.steps import (
    AT_ONCE,
    EXACT,
    claim_one,
    claimed,
    found,
    nonzero,
    story,
)

DAY_SECONDS: Final = 86_400.0


class Expiry:
    async def test_a_lease_outlives_its_end_by_less_than_the_clock_skew(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        job = await claimed(queue)
        assert job.lease_until is not None
        await clock.advance_to(job.lease_until + 1.999)
        await queue.ack(job)
        assert (await found(queue, job.id)).state is State.COMPLETED

    async def test_a_lease_is_dead_at_its_end_and_the_clock_skew(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        job = await claimed(queue)
        assert job.lease_until is not None
        await clock.advance_to(job.lease_until + 2)
        with pytest.raises(LeaseLost):
            await queue.ack(job)

    async def test_the_clock_skew_can_be_set(self, queue: Queue, clock: FakeClock) -> None:
        await queue.configure(clock_skew_seconds=20)
        job = await claimed(queue)
        await clock.advance(49)
        await queue.heartbeat(job)
        await clock.advance(50)
        with pytest.raises(LeaseLost):
            await queue.heartbeat(job)

    async def test_a_dead_lease_can_not_be_revived_by_a_heartbeat(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        job = await claimed(queue)
        await clock.advance(32)
        with pytest.raises(LeaseLost):
            await queue.heartbeat(job)
        with pytest.raises(LeaseLost):
            await queue.ack(job)

    async def test_a_claim_returns_what_has_expired(self, queue: Queue, clock: FakeClock) -> None:
        job = await claimed(queue, retry=AT_ONCE)
        await clock.advance(32)
        again = await claim_one(queue)
        assert (again.id, again.attempt, again.failures) == (job.id, 2, 1)

    async def test_an_expired_job_comes_back_with_backoff(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        job = await claimed(queue, retry=EXACT)
        await clock.advance(32)
        assert await queue.claim() == []
        back = await found(queue, job.id)
        assert (back.state, back.failures) == (State.PENDING, 1)
        assert back.run_at == clock.now() + 1
        await clock.advance(1)
        assert (await claim_one(queue)).id == job.id

    async def test_an_expiry_counts_as_a_failure_and_says_why(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await queue.enqueue("work", id="job")
        await claim_one(queue, worker="w1")
        await clock.advance(32)
        assert await queue.expire() == 1
        [error] = (await found(queue, "job")).errors
        assert (error.attempt, error.at, error.kind) == (1, clock.now(), "expired")
        assert "w1" in error.message

    async def test_a_job_whose_attempts_are_used_up_fails_by_expiry(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        job = await claimed(queue, max_attempts=2, retry=AT_ONCE)
        await clock.advance(32)
        await claim_one(queue)
        await clock.advance(32)
        assert await queue.claim() == []
        failed = await found(queue, job.id)
        assert (failed.state, failed.failures, failed.attempt) == (State.FAILED, 2, 2)
        assert [error.kind for error in failed.errors] == ["expired", "expired"]
        assert failed.ended_at == clock.now()

    async def test_the_explicit_sweep_says_how_many_it_found(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await queue.enqueue_many([NewJob("work", id=str(n)) for n in range(5)])
        await queue.claim(2, lease_seconds=10)
        await queue.claim(2, lease_seconds=100)
        assert await queue.expire() == 0
        await clock.advance(12)
        assert await queue.expire() == 2
        assert await queue.expire() == 0
        assert await story(queue, "0") == ["enqueued", "claimed", "expired"]

    async def test_a_dead_lease_that_nobody_has_recorded_shows_as_it_is_stored(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        job = await claimed(queue, retry=AT_ONCE)
        assert not (await found(queue, job.id)).expired
        await clock.advance(32)
        looked = await found(queue, job.id)
        assert (looked.state, looked.expired) == (State.RUNNING, True)
        assert looked.lease_until == job.lease_until
        assert [one.expired async for one in queue.jobs()] == [True]
        assert nonzero((await queue.stats()).totals) == {"running": 1}
        assert await story(queue, job.id) == ["enqueued", "claimed"]
        assert await queue.expire() == 1
        recorded = await found(queue, job.id)
        assert (recorded.state, recorded.expired) == (State.PENDING, False)
        assert await story(queue, job.id) == ["enqueued", "claimed", "expired"]

    async def test_a_heartbeat_postpones_the_expiry(self, queue: Queue, clock: FakeClock) -> None:
        job = await claimed(queue)
        for _ in range(4):
            await clock.advance(25)
            await queue.heartbeat(job)
        assert await queue.expire() == 0
        await queue.ack(job)

    async def test_a_lease_of_no_time_still_lasts_for_the_clock_skew(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await queue.enqueue("work")
        job = await claim_one(queue, lease_seconds=0)
        await clock.advance(1.5)
        await queue.ack(job)
        assert (await found(queue, job.id)).state is State.COMPLETED

    async def test_a_lease_given_by_one_handle_dies_for_all(
        self, queue: Queue, handles: Handles, clock: FakeClock
    ) -> None:
        other = await handles.open()
        job = await claimed(queue, retry=AT_ONCE)
        await clock.advance(32)
        again = await claim_one(other)
        assert again.id == job.id
        with pytest.raises(LeaseLost):
            await queue.ack(job)
        await other.ack(again)

    async def test_a_clock_that_was_a_day_ahead_stops_neither_delays_nor_retries_nor_expiries(
        self, handles: Handles, clock: FakeClock
    ) -> None:
        clock.set_ahead(DAY_SECONDS)
        ahead = await handles.open()
        await ahead.enqueue("ahead")
        clock.set_ahead(-DAY_SECONDS)
        queue = await handles.open()
        await queue.enqueue("late", id="late", delay_seconds=9)
        leased = await claimed(queue, "leased", retry=EXACT)
        tried = await claimed(queue, "tried", retry=EXACT)
        await queue.nack(tried, "no")
        await clock.advance(11)
        due = {job.id for job in await queue.claim(9, types=["late", "tried"])}
        assert due == {"late", tried.id}
        await clock.advance(36)
        assert await queue.expire() == 3
        assert (await found(queue, leased.id)).state is State.PENDING

    async def test_what_a_clock_that_was_a_day_ahead_wrote_itself_does_not_wait_for_that_day(
        self, handles: Handles, clock: FakeClock
    ) -> None:
        clock.set_ahead(DAY_SECONDS)
        ahead = await handles.open()
        await ahead.enqueue("late", id="late", delay_seconds=9)
        leased = await claimed(ahead, "leased", retry=EXACT)
        tried = await claimed(ahead, "tried", retry=EXACT)
        await ahead.nack(tried, "no")
        clock.set_ahead(-DAY_SECONDS)
        queue = await handles.open()
        assert await queue.claim(9) == []
        assert await queue.expire() == 0
        await clock.advance(11)
        assert {job.id for job in await queue.claim(9)} == {"late", tried.id}
        await clock.advance(36)
        assert await queue.expire() == 3
        assert (await found(queue, leased.id)).state is State.PENDING

    async def test_a_vacuum_by_a_clock_a_day_ahead_forbids_no_large_payload_from_then_on(
        self, handles: Handles, clock: FakeClock
    ) -> None:
        large = "x" * 2_000
        clock.set_ahead(DAY_SECONDS)
        ahead = await handles.open(offload=True, payload_bytes_max=1_000)
        await ahead.configure(log_retention_seconds=3_600)
        await ahead.enqueue("old", large)
        await clock.advance(DAY_SECONDS)
        await ahead.vacuum()
        clock.set_ahead(-2 * DAY_SECONDS)
        queue = await handles.open(offload=True, payload_bytes_max=1_000)
        assert (await queue.enqueue("new", large)).status == "queued"
        await queue.vacuum()
        [job] = await queue.claim(types=["new"])
        assert job.payload == large
