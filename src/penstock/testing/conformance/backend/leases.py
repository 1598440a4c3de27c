"""Leases: who holds one may end the attempt, once; who lost it can change nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import copy
from typing import Any

import msgspec
import pytest

from penstock.client.queue import Queue
from penstock.errors import InvalidInput, LeaseLost
from penstock.kernel.job import Job, State
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.handles import Handles
from penstock.testing.conformance.backend.steps import (
    AT_ONCE,
    claim_one,
    claimed,
    completed,
    found,
    story,
)

Act = Callable[[Queue, Job], Awaitable[Any]]

ACTS: dict[str, Act] = {
    "heartbeat": lambda queue, job: queue.heartbeat(job, progress=0.5),
    "ack": lambda queue, job: queue.ack(job, "from a zombie"),
    "nack": lambda queue, job: queue.nack(job, "from a zombie"),
    "release": lambda queue, job: queue.release(job),
    "snooze": lambda queue, job: queue.snooze(job, 2e9),
}
ENDS: dict[str, Act] = {
    "ack": lambda queue, job: queue.ack(job),
    "retry": lambda queue, job: queue.nack(job, "boom"),
    "failure": lambda queue, job: queue.nack(job, "boom", retry=False),
    "release": lambda queue, job: queue.release(job),
    "snooze": lambda queue, job: queue.snooze(job, 2e9),
}


class Leases:
    async def test_an_ack_completes_the_job(self, queue: Queue, clock: FakeClock) -> None:
        job = await claimed(queue)
        await clock.advance(3)
        await queue.ack(job, {"ok": True})
        done = await found(queue, job.id)
        assert (done.state, done.result) == (State.COMPLETED, {"ok": True})
        assert (done.ended_at, done.started_at) == (clock.now(), clock.now() - 3)
        assert (done.lease, done.lease_until) == (None, None)
        assert (done.attempt, done.failures, done.errors) == (1, 0, ())

    async def test_a_heartbeat_extends_the_lease_and_says_until_when(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        job = await claimed(queue)
        await clock.advance(20)
        until = await queue.heartbeat(job, lease_seconds=45)
        assert until == job.lease_until == clock.now() + 45
        await clock.advance(44)
        assert (await found(queue, job.id)).lease_until == until
        await queue.ack(job)

    async def test_a_heartbeat_never_shortens_a_lease(self, queue: Queue) -> None:
        job = await claimed(queue)
        assert await queue.heartbeat(job, lease_seconds=1) == job.lease_until
        assert job.lease_until == (await found(queue, job.id)).lease_until

    async def test_a_heartbeat_can_tell_the_progress(self, queue: Queue) -> None:
        job = await claimed(queue)
        await queue.heartbeat(job, progress=0.25)
        assert (await found(queue, job.id)).progress == 0.25
        await queue.heartbeat(job)
        assert (await found(queue, job.id)).progress == 0.25, "no news is not zero"

    async def test_a_progress_may_carry_a_few_words(self, queue: Queue) -> None:
        job = await claimed(queue)
        await queue.heartbeat(job, progress=0.25, message="resizing")
        await queue.heartbeat(job)
        seen = await found(queue, job.id)
        assert (seen.progress, seen.progress_message) == (0.25, "resizing")
        await queue.heartbeat(job, progress=0.5, message="ä" * 1_000)
        assert (await found(queue, job.id)).progress_message == "ä" * 200
        await queue.heartbeat(job, progress=0.75)
        assert (await found(queue, job.id)).progress_message is None
        with pytest.raises(InvalidInput, match="goes with a progress"):
            await queue.heartbeat(job, message="alone")

    async def test_what_was_said_last_is_kept_at_the_end(self, queue: Queue) -> None:
        job = await claimed(queue)
        await queue.heartbeat(job, progress=0.9, message="packing")
        await queue.ack(job)
        done = await found(queue, job.id)
        assert (done.progress, done.progress_message) == (0.9, "packing")

    async def test_a_new_attempt_begins_without_progress(self, queue: Queue) -> None:
        job = await claimed(queue)
        await queue.heartbeat(job, progress=0.9)
        await queue.release(job)
        assert (await claim_one(queue)).progress is None

    async def test_a_release_gives_the_job_back_and_counts_no_failure(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        job = await claimed(queue)
        await clock.advance(5)
        await queue.release(job)
        back = await found(queue, job.id)
        assert (back.state, back.failures, back.errors) == (State.PENDING, 0, ())
        assert (back.run_at, back.lease, back.lease_until) == (clock.now(), None, None)
        assert (await claim_one(queue)).attempt == 2

    async def test_a_snoozed_job_comes_back_later_and_counts_no_failure(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        job = await claimed(queue)
        await queue.snooze(job, clock.now() + 60)
        asleep = await found(queue, job.id)
        assert (asleep.state, asleep.failures) == (State.PENDING, 0)
        assert asleep.run_at == clock.now() + 60
        await clock.advance(59)
        assert await queue.claim() == []
        await clock.advance(1)
        assert (await claim_one(queue)).attempt == 2

    async def test_a_job_can_be_released_more_often_than_it_may_fail(self, queue: Queue) -> None:
        await queue.enqueue("work", max_attempts=1)
        for attempt in range(1, 5):
            job = await claim_one(queue)
            assert (job.attempt, job.failures) == (attempt, 0)
            await queue.release(job)

    @pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
    async def test_a_lease_that_ran_out_can_change_nothing(
        self, queue: Queue, clock: FakeClock, act: Act
    ) -> None:
        job = await claimed(queue, retry=AT_ONCE)
        await clock.advance(32)
        with pytest.raises(LeaseLost) as raised:
            await act(queue, job)
        assert raised.value.id == job.id
        back = await found(queue, job.id)
        assert (back.state, back.failures, back.progress) == (State.PENDING, 1, None)

    @pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
    async def test_a_lease_that_was_taken_over_can_change_nothing(
        self, queue: Queue, clock: FakeClock, act: Act
    ) -> None:
        old = await claimed(queue, retry=AT_ONCE)
        await clock.advance(32)
        new = await claim_one(queue, worker="new")
        assert new.id == old.id
        with pytest.raises(LeaseLost):
            await act(queue, old)
        await _is_held_by(queue, new)

    @pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
    @pytest.mark.parametrize("part", ["secret", "fence"])
    async def test_a_forged_token_can_change_nothing(
        self, queue: Queue, act: Act, part: str
    ) -> None:
        job = await claimed(queue)
        assert job.lease is not None
        forged = copy(job)
        other = "0" * 32 if part == "secret" else job.lease.fence + 1
        forged.lease = msgspec.structs.replace(job.lease, **{part: other})
        with pytest.raises(LeaseLost):
            await act(queue, forged)
        await _is_held_by(queue, job)

    @pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
    async def test_a_lease_on_an_earlier_life_can_change_nothing(
        self, queue: Queue, clock: FakeClock, act: Act
    ) -> None:
        await queue.configure(result_ttl_seconds=0)
        await queue.enqueue("work", id="phoenix", retry=AT_ONCE)
        zombie = await claim_one(queue)
        await clock.advance(32)
        await queue.ack(await claim_one(queue))
        assert (await queue.enqueue("work", id="phoenix")).status == "queued"
        reborn = await claim_one(queue)
        with pytest.raises(LeaseLost):
            await act(queue, zombie)
        await _is_held_by(queue, reborn)

    @pytest.mark.parametrize("end", ENDS)
    async def test_ending_an_attempt_again_with_the_same_lease_is_success(
        self, queue: Queue, end: str
    ) -> None:
        job = await claimed(queue)
        first = await ENDS[end](queue, job)
        before = await story(queue, job.id)
        assert await ENDS[end](queue, job) == first
        assert await story(queue, job.id) == before, "the repetition happened again"

    async def test_an_ack_again_does_not_change_the_result(self, queue: Queue) -> None:
        job = await claimed(queue)
        await queue.ack(job, "first")
        await queue.ack(job, "second")
        assert (await found(queue, job.id)).result == "first"

    async def test_an_ack_can_be_repeated_through_another_handle(
        self, queue: Queue, handles: Handles
    ) -> None:
        other = await handles.open()
        job = await claimed(queue)
        await queue.ack(job, "done")
        await other.ack(job, "done")
        assert (await found(other, job.id)).result == "done"

    @pytest.mark.parametrize("end", ["retry", "failure", "release"])
    async def test_an_attempt_that_ended_otherwise_can_not_be_acked(
        self, queue: Queue, end: str
    ) -> None:
        job = await claimed(queue)
        await ENDS[end](queue, job)
        with pytest.raises(LeaseLost):
            await queue.ack(job)
        assert (await found(queue, job.id)).state is not State.COMPLETED

    @pytest.mark.parametrize("act", ["nack", "release", "heartbeat"])
    async def test_a_completed_attempt_can_not_end_otherwise(self, queue: Queue, act: str) -> None:
        job = await claimed(queue)
        await queue.ack(job)
        with pytest.raises(LeaseLost):
            await ACTS[act](queue, job)
        assert (await found(queue, job.id)).state is State.COMPLETED

    @pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
    async def test_a_job_without_a_lease_is_refused_before_anything_is_sent(
        self, queue: Queue, act: Act
    ) -> None:
        receipt = await queue.enqueue("work")
        with pytest.raises(InvalidInput, match="no lease"):
            await act(queue, await found(queue, receipt.id))
        assert await story(queue, receipt.id) == ["enqueued"]

    async def test_the_lease_of_a_finished_job_is_gone_for_good(self, queue: Queue) -> None:
        id = await completed(queue)
        assert (await found(queue, id)).lease is None


async def _is_held_by(queue: Queue, holder: Job) -> None:
    seen = await found(queue, holder.id)
    assert (seen.state, seen.attempt, seen.life) == (State.RUNNING, holder.attempt, holder.life)
    assert (seen.progress, seen.lease_until) == (None, holder.lease_until)
    await queue.ack(holder, "from the holder")
    assert (await queue.enqueue(seen.type, id=seen.id)).status in ("completed", "queued")
