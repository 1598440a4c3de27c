"""Heartbeats for as long as a block of code runs, and the end of it when the lease is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from penstock.errors import (
    BeingFilled,
    JobCancelled,
    LeaseLost,
    Moved,
    OutcomeUnknown,
    PenstockError,
    StoreError,
)
from penstock.kernel.job import Job
from penstock.ports.clock import Clock
from penstock.runtime.tasks import TaskSet

BEATS_PER_LEASE: Final = 3
"""Two may get lost before the lease does."""


@asynccontextmanager
async def keep_alive(
    heartbeat: Callable[..., Awaitable[float]], job: Job, lease_seconds: float, clock: Clock
) -> AsyncIterator[Job]:
    body = asyncio.current_task()
    assert body is not None
    lost: list[PenstockError] = []

    async def beat() -> None:
        try:
            await _beat_until_lost(heartbeat, job, lease_seconds, clock)
        except (LeaseLost, JobCancelled, Moved) as error:
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
    rest = min(max(left, 0.0), lease_seconds)
    while True:
        await clock.sleep(rest / BEATS_PER_LEASE)
        rest, sent_at = lease_seconds, clock.elapsed()
        try:
            await heartbeat(job, lease_seconds=lease_seconds)
            runs_out_at = sent_at + lease_seconds
        except (StoreError, OutcomeUnknown, BeingFilled):
            # The store may come back in time; once the lease must have run out, it is lost.
            if clock.elapsed() >= runs_out_at:
                raise LeaseLost(job.id) from None
