"""Heartbeats while a block runs, and the end of the block when the lease is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from penstock.client.queue import Queue
from penstock.errors import JobCancelled, LeaseLost
from penstock.kernel.events import Extended
from penstock.kernel.job import Job, State
from penstock.testing.clock import FakeClock, turn, turns
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
        began, position = clock.now(), await _last_position(queue, job)
        async with queue.keep_alive(job, lease_seconds=30):
            for beat in range(1, 6):
                async with meanwhile(take(queue, 1, since=position)) as news:
                    await clock.advance(10)
                [event] = news.result()
                position = event.position
                assert isinstance(event, Extended)
                assert event.lease_until == began + 10 * beat + 30
                await _answered(job, event)
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
        with pytest.raises(LeaseLost):
            await _hold(queue, job, _stalled(clock, 32))

    async def test_the_first_heartbeat_comes_before_the_lease_that_was_claimed_runs_out(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        job = await claimed(queue)
        position = await _last_position(queue, job)
        await clock.advance(25)
        async with queue.keep_alive(job, lease_seconds=30):
            async with meanwhile(take(queue, 1, since=position)) as news:
                await clock.advance(4)
            [event] = news.result()
            assert isinstance(event, Extended)
            await _answered(job, event)
            await clock.advance(5)
        await queue.ack(job)
        assert (await found(queue, job.id)).state is State.COMPLETED

    async def test_a_block_whose_job_is_cancelled_is_cancelled_and_told_so(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        job = await claimed(queue)
        assert await queue.cancel(job.id) == "cancelled"
        with pytest.raises(JobCancelled):
            await _hold(queue, job, clock.advance(10))

    async def test_an_error_of_the_block_passes_through(self, queue: Queue) -> None:
        job = await claimed(queue)
        with pytest.raises(ZeroDivisionError):
            async with queue.keep_alive(job):
                raise ZeroDivisionError
        await queue.nack(job, "divided")
        assert (await found(queue, job.id)).failures == 1

    async def test_a_block_that_is_cancelled_by_others_stays_cancelled(self, queue: Queue) -> None:
        await queue.enqueue("work")
        job = await claim_one(queue)

        async def hold() -> None:
            async with queue.keep_alive(job):
                await asyncio.get_running_loop().create_future()

        async with meanwhile(hold()) as holding:
            holding.cancel()
        assert holding.cancelled()


async def _last_position(queue: Queue, job: Job) -> int:
    """Where its story ends by now: to ask for "now" takes time, in which a heartbeat may come."""
    return (await queue.history(job.id))[-1].position


async def _answered(job: Job, event: Extended) -> None:
    """Others may see a heartbeat before the one who asked is answered and sleeps again."""
    async with asyncio.timeout(HANG_SECONDS):
        while job.lease_until != event.lease_until:
            await turn()


async def _hold(queue: Queue, job: Job, happens: Awaitable[None]) -> None:
    """A block that would never end by itself, in which something happens."""
    async with asyncio.timeout(HANG_SECONDS), queue.keep_alive(job, lease_seconds=30):
        await happens
        await asyncio.get_running_loop().create_future()


async def _stalled(clock: FakeClock, seconds: float) -> None:
    """Time in which nobody gets to run, as in a process that was suspended."""
    await turns()
    clock.jump(seconds)
    await clock.advance(0)
