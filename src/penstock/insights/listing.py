"""Lists of jobs, by state or by one of the views that people ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator

from penstock.client.queue import Queue
from penstock.kernel.job import Job


async def listed(
    queue: Queue,
    *,
    state: str | None = None,
    name: str | None = None,
    type: str | None = None,
    archived: bool = False,
) -> AsyncIterator[Job]:
    """Jobs oldest first. `scheduled` and `retrying` are views of pending and not states."""
    is_view = state in ("scheduled", "retrying")
    now = (await queue.stats()).at if is_view else 0.0
    wanted = "pending" if is_view else state
    async for job in queue.jobs(state=wanted, queue=name, type=type, archived=archived):
        if state == "scheduled" and job.run_at <= now:
            continue
        if state == "retrying" and job.failures == 0:
            continue
        yield job
