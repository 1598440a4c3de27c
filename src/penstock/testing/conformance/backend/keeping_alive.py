"""Heartbeats while a block runs, and the end of the block when the lease is lost."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.queue import Queue
from penstock.errors import JobCancelled, LeaseLost
from penstock.kernel.job import State
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.steps import (
    HANG_SECONDS,
    claim_one,
    claimed,
    found,
    meanwhile,
    take,
)


class KeepingAlive:
    async def test_a_lease_is_extended_for_as_long_as_the_block_runs(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        job = await claimed(queue)
        began = clock.now()
        async with queue.keep_alive(job, lease_seconds=30):
            for beat in range(1, 6):
                async with meanwhile(take(queue, 1, since="now")) as news:
                    await clock.advance(10)
                assert [event.event for event in news.result()] == ["extended"]
                assert job.lease_until == began + 10 * beat + 30
        await queue.ack(job)
        assert (await found(queue, job.id)).state is State.COMPLETED

    async def test_when_the_block_has_ended_so_have_the_heartbeats(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        job = await claimed(queue)
        async with queue.keep_alive(job, lease_seconds=30) as held:
            assert held is job
        await clock.advance(32)
        with pytest.raises(LeaseLost):
            await queue.ack(job)

    async def test_a_block_whose_lease_is_lost_is_cancelled_and_told_so(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        job = await claimed(queue)
        was_cancelled = False
        with pytest.raises(LeaseLost):
            async with asyncio.timeout(HANG_SECONDS), queue.keep_alive(job, lease_seconds=30):
                clock.jump(32)
                try:
                    await asyncio.get_running_loop().create_future()
                except asyncio.CancelledError:
                    was_cancelled = True
                    raise
        assert was_cancelled

    async def test_a_block_whose_job_is_cancelled_is_cancelled_and_told_so(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        job = await claimed(queue)
        with pytest.raises(JobCancelled):
            async with asyncio.timeout(HANG_SECONDS), queue.keep_alive(job, lease_seconds=30):
                assert await queue.cancel(job.id) == "cancelled"
                await clock.advance(10)
                await asyncio.get_running_loop().create_future()

    async def test_an_error_of_the_block_passes_through(self, queue: Queue) -> None:
        job = await claimed(queue)
        with pytest.raises(ZeroDivisionError):
            async with queue.keep_alive(job):
                raise ZeroDivisionError
        await queue.nack(job, "divided")
        assert (await found(queue, job.id)).failures == 1

    async def test_a_block_that_is_cancelled_by_others_stays_cancelled(
        self, queue: Queue
    ) -> None:
        await queue.enqueue("work")
        job = await claim_one(queue)

        async def hold() -> None:
            async with queue.keep_alive(job):
                await asyncio.get_running_loop().create_future()

        async with meanwhile(hold()) as holding:
            holding.cancel()
        assert holding.cancelled()
