"""Lists of jobs, by state or by one of the views that people ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Container
from heapq import nlargest, nsmallest
from typing import Final

from penstock.client.queue import Queue
from penstock.engines.records.tasks.names import shard_of, task_name
from penstock.kernel.job import Job

_LARGEST_FIRST: Final = ("updated_at", "failures")
"""What moved or failed most is what people look for; of the others the next in line."""


async def listed(
    queue: Queue,
    *,
    state: str | None = None,
    name: str | None = None,
    type: str | None = None,
    archived: bool = False,
    shards: Container[str] | None = None,
    attempts_min: int = 0,
) -> AsyncIterator[Job]:
    """Jobs oldest first. `scheduled` and `retrying` are views of pending and not states.

    A job's shard is the one that it has, or would have, in layout `tasks`.
    """
    is_view = state in ("scheduled", "retrying")
    now = (await queue.stats()).at if is_view else 0.0
    wanted = "pending" if is_view else state
    async for job in queue.jobs(state=wanted, queue=name, type=type, archived=archived):
        if state == "scheduled" and job.run_at <= now:
            continue
        if state == "retrying" and job.failures == 0:
            continue
        if job.attempt < attempts_min:
            continue
        if shards is not None and shard_of(task_name(job.tenant, job.id)) not in shards:
            continue
        yield job


async def first_of(jobs: AsyncIterator[Job], sort: str | None, limit: int) -> list[Job]:
    """The first so many, by a field or in the order in which they come."""
    if sort is None:
        found: list[Job] = []
        async for job in jobs:
            found.append(job)
            if len(found) == limit:
                break
        return found
    take = nlargest if sort in _LARGEST_FIRST else nsmallest
    return take(limit, [job async for job in jobs], key=lambda job: getattr(job, sort))
