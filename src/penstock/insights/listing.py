"""Lists of jobs, by state or by one of the views that people ask for."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Container
from heapq import nlargest, nsmallest
from typing import Final

from penstock.client.queue import Queue
from penstock.engines.records.tasks.names import shard_of, task_name
from penstock.kernel.job import Job

_LARGEST_FIRST: Final = ("updated_at", "failures")
"""What moved or failed most is what people look for; of the others the next in line."""
_SORTED_AT_ONCE: Final = 1_000


async def listed(
    queue: Queue,
    *,
    state: str | None = None,
    name: str | None = None,
    type: str | None = None,
    archived: bool = False,
    shards: Container[str] | None = None,
    attempts_min: int = 0,
    after: str | None = None,
    limit: int | None = None,
) -> AsyncIterator[Job]:
    """Jobs oldest first. `scheduled` and `retrying` are views of pending and not states.

    A job's shard is the one that it has, or would have, in layout `tasks`. At most `limit`, behind
    the job that the cursor `after` is of.
    """
    is_view = state in ("scheduled", "retrying")
    is_sieved = is_view or attempts_min > 0 or shards is not None
    left = sys.maxsize if limit is None else limit
    now = (await queue.stats()).at if is_view else 0.0
    wanted = "pending" if is_view else state
    found = queue.jobs(
        state=wanted, queue=name, type=type, archived=archived, after=after,
        limit=None if is_sieved else limit,
    )  # fmt: skip
    async for job in found:
        if state == "scheduled" and job.run_at <= now:
            continue
        if state == "retrying" and job.failures == 0:
            continue
        if job.attempt < attempts_min:
            continue
        if shards is not None and shard_of(task_name(job.tenant, job.id)) not in shards:
            continue
        yield job
        left -= 1
        if left <= 0:
            return


async def first_by(jobs: AsyncIterator[Job], sort: str, limit: int) -> list[Job]:
    """The first so many by a field. All are looked at, a few at a time."""
    take = nlargest if sort in _LARGEST_FIRST else nsmallest
    first: list[Job] = []
    async for job in jobs:
        first.append(job)
        if len(first) >= limit + _SORTED_AT_ONCE:
            first = take(limit, first, key=lambda job: getattr(job, sort))
    return take(limit, first, key=lambda job: getattr(job, sort))


async def with_values(queue: Queue, jobs: list[Job], *, all_of_them: bool = False) -> list[Job]:
    """With the large values that a list does not have; or `all_of_them`, with those that completed
    jobs have let go, too. One that has left since it was listed, or lives again, is as it was."""
    wanted = [job.id for job in jobs if all_of_them or job.payload_key or job.result_key]
    found = {job.id: job for job in await queue.get(wanted) if job is not None}
    return [
        now if (now := found.get(job.id)) is not None and now.life == job.life else job
        for job in jobs
    ]
