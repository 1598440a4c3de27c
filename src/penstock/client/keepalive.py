"""Heartbeats for as long as a block of code runs, and the end of it when the lease is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from penstock.errors import PASSING, LeaseLost
from penstock.kernel.job import Job
from penstock.ports.clock import Clock
from penstock.runtime.complaints import Complaints
from penstock.runtime.tasks import TaskSet, within

logger = logging.getLogger(__name__)

BEATS_PER_LEASE: Final = 3
"""Two may get lost before the lease does."""
RETRY_SECONDS: Final = 1.0
"""How soon a heartbeat that failed is tried again."""


@asynccontextmanager
async def keep_alive(
    heartbeat: Callable[..., Awaitable[float]], job: Job, lease_seconds: float, clock: Clock
) -> AsyncIterator[Job]:
    body = asyncio.current_task()
    assert body is not None
    lost: list[Exception] = []

    async def beat() -> None:
        try:
            await _beat_until_lost(heartbeat, job, lease_seconds, clock)
        except Exception as error:  # noqa: BLE001  # raised where the body was
            lost.append(error)
            body.cancel()

    tasks = TaskSet("keep alive")
    tasks.start(job.id, beat())
    try:
        yield job
    except asyncio.CancelledError:
        if not lost:
            raise
        body.uncancel()
        raise lost[0] from None
    finally:
        await tasks.stop()


async def _beat_until_lost(
    heartbeat: Callable[..., Awaitable[float]], job: Job, lease_seconds: float, clock: Clock
) -> None:
    # The first beat goes by what is left of the lease that the job came with.
    left = lease_seconds if job.lease_until is None else job.lease_until - clock.now()
    runs_out_at = clock.elapsed() + left
    pause = min(max(left, 0.0), lease_seconds) / BEATS_PER_LEASE
    complaints = Complaints(logger, clock)

    async def beat() -> None:
        await heartbeat(job, lease_seconds=lease_seconds)

    while True:
        await clock.sleep(pause)
        pause, sent_at = lease_seconds / BEATS_PER_LEASE, clock.elapsed()
        try:
            # No longer than the lease lasts: by then the block has to be stopped.
            if not await within(max(0.0, runs_out_at - sent_at), clock, beat()):
                raise LeaseLost(job.id)
            runs_out_at = sent_at + lease_seconds
            complaints.fine()
        except PASSING as error:
            # It may be over in time; once the lease must have run out, it is lost.
            complaints.trouble("a heartbeat", error)
            if clock.elapsed() >= runs_out_at:
                raise LeaseLost(job.id) from None
            pause = min(RETRY_SECONDS, pause, runs_out_at - clock.elapsed())
