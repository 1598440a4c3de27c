"""Cancelling: it wins over whatever has not ended yet, and says what it met."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from penstock.client.queue import Queue
from penstock.errors import JobCancelled
from penstock.kernel.events import Cancelled
from penstock.kernel.job import State
from penstock.ports.backend import Announcing
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.handles import Handles
from penstock.testing.conformance.backend.leases import ACTS, Act
from penstock.testing.conformance.backend.steps import (
    AT_ONCE,
    HANG_SECONDS,
    claim_one,
    claimed,
    completed,
    failed,
    found,
    story,
)


class Cancelling:
    async def test_a_pending_job_is_cancelled_and_never_claimed(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        receipt = await queue.enqueue("work")
        assert await queue.cancel(receipt.id) == "cancelled"
        job = await found(queue, receipt.id)
        assert (job.state, job.ended_at) == (State.CANCELLED, clock.now())
        assert await queue.claim() == []

    async def test_a_scheduled_job_can_be_cancelled(self, queue: Queue, clock: FakeClock) -> None:
        receipt = await queue.enqueue("work", delay_seconds=60)
        assert await queue.cancel(receipt.id) == "cancelled"
        await clock.advance(60)
        assert await queue.claim() == []

    async def test_a_retrying_job_can_be_cancelled(self, queue: Queue, clock: FakeClock) -> None:
        job = await claimed(queue)
        await queue.nack(job, "boom")
        assert await queue.cancel(job.id) == "cancelled"
        await clock.advance(60)
        assert await queue.claim() == []
        assert len((await found(queue, job.id)).errors) == 1

    async def test_a_running_job_is_cancelled_at_once_and_its_lease_dies(
        self, queue: Queue
    ) -> None:
        job = await claimed(queue)
        assert await queue.cancel(job.id) == "cancelled"
        seen = await found(queue, job.id)
        assert (seen.state, seen.lease, seen.lease_until) == (State.CANCELLED, None, None)

    @pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
    async def test_the_worker_of_a_cancelled_job_is_told_so_and_changes_nothing(
        self, queue: Queue, act: Act
    ) -> None:
        job = await claimed(queue)
        await queue.cancel(job.id)
        with pytest.raises(JobCancelled) as raised:
            await act(queue, job)
        assert raised.value.id == job.id
        assert await story(queue, job.id) == ["enqueued", "claimed", "cancelled"]

    async def test_a_completion_that_came_first_stands(self, queue: Queue) -> None:
        id = await completed(queue, "done")
        assert await queue.cancel(id) == "completed"
        job = await found(queue, id)
        assert (job.state, job.result) == (State.COMPLETED, "done")

    async def test_a_failure_that_came_first_stands(self, queue: Queue) -> None:
        id = await failed(queue)
        assert await queue.cancel(id) == "failed"
        assert (await found(queue, id)).state is State.FAILED

    async def test_cancelling_twice_says_cancelled_twice(self, queue: Queue) -> None:
        receipt = await queue.enqueue("work")
        assert await queue.cancel(receipt.id) == "cancelled"
        assert await queue.cancel(receipt.id) == "cancelled"
        assert await story(queue, receipt.id) == ["enqueued", "cancelled"]

    async def test_cancelling_what_is_unknown_says_not_found(self, queue: Queue) -> None:
        assert await queue.cancel("nobody") == "not_found"

    async def test_a_cancelled_job_stays_cancelled_when_its_lease_would_have_died(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        job = await claimed(queue, retry=AT_ONCE)
        await queue.cancel(job.id)
        await clock.advance(3600)
        assert await queue.expire() == 0
        assert (await found(queue, job.id)).state is State.CANCELLED

    async def test_a_cancel_through_one_handle_reaches_the_worker_at_another(
        self, queue: Queue, handles: Handles
    ) -> None:
        other = await handles.open()
        await queue.enqueue("work", id="job")
        job = await claim_one(other)
        assert await queue.cancel("job") == "cancelled"
        with pytest.raises(JobCancelled):
            await other.ack(job)
        assert (await found(other, "job")).state is State.CANCELLED

    async def test_who_listens_hears_what_was_cancelled_and_by_their_own_tenant_only(
        self, queue: Queue, handles: Handles
    ) -> None:
        other, stranger = await handles.open(), await handles.open(tenant="stranger")
        heard = _Heard()
        with queue.watch_cancelled(heard):
            for each in (other, stranger):
                await each.enqueue("work", id="job")
                await each.cancel("job")
            # Whoever looks knows, and whoever knows is told.
            job = await found(queue, "job")
        heard.require(queue)
        assert heard.lives == [("job", job.life)]
        await other.enqueue("work", id="another")
        await other.cancel("another")
        await found(queue, "another")
        assert heard.lives == [("job", job.life)]

    async def test_who_follows_hears_of_others_cancellations_without_asking(
        self, queue: Queue, handles: Handles
    ) -> None:
        if not queue.capabilities.push:
            pytest.skip("this backend has to be asked")
        other, heard = await handles.open(), _Heard()
        heard.require(queue)
        await other.enqueue("work", id="job")
        with queue.watch_cancelled(heard), queue.following():
            await other.cancel("job")
            async with asyncio.timeout(HANG_SECONDS):
                await heard.something.wait()
        assert [id for id, _ in heard.lives] == ["job"]


class _Heard:
    """What a listener was told."""

    def __init__(self) -> None:
        self.lives: list[tuple[str, int]] = []
        self.something = asyncio.Event()

    def __call__(self, cancelled: Sequence[Cancelled] | None) -> None:
        assert cancelled is not None, "nothing was skipped"
        self.lives += [(event.id, event.life) for event in cancelled]
        if self.lives:
            self.something.set()

    def require(self, queue: Queue) -> None:
        if not isinstance(queue._backend, Announcing):
            pytest.skip("this backend leaves it to heartbeats")
