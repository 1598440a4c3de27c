"""All jobs of a queue, whole and in the order in which they would be claimed."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Final

from penstock.kernel.job import Job, State
from penstock.ports.backend import Backend, Filter

BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""A batch of jobs ends when their values reach this, if not before."""


async def in_order(backend: Backend, tenant: str) -> AsyncIterator[Job]:
    """Those of one tenant. Unadmitted rows are many, so they are never held all at once."""
    listed = [job async for job in backend.jobs(tenant, Filter(archived=True))]
    is_sorted = False
    async for job in backend.jobs(tenant, Filter()):
        if not _is_unadmitted(job):
            listed.append(job)
            continue
        if not is_sorted:
            listed.sort(key=_place, reverse=True)
            is_sorted = True
        while listed and _place(listed[-1]) < _place(job):
            yield listed.pop()
        yield job
    for job in sorted(listed, key=_place):
        yield job


async def batches(jobs: AsyncIterable[Job], jobs_max: int) -> AsyncIterator[list[Job]]:
    batch: list[Job] = []
    size_bytes = 0
    async for job in jobs:
        batch.append(job)
        size_bytes += len(job.payload) + len(job.result)
        if len(batch) == jobs_max or size_bytes >= BATCH_BYTES_MAX:
            yield batch
            batch, size_bytes = [], 0
    if batch:
        yield batch


async def whole(backend: Backend, tenant: str, jobs: list[Job]) -> list[Job]:
    """With the values that a list does not have: completed jobs have let go of them."""
    slim = [job.id for job in jobs if job.state is State.COMPLETED]
    if not slim:
        return jobs
    found = {job.id: job for job in await backend.get(tenant, slim) if job is not None}
    return [found.get(job.id, job) for job in jobs]


def _is_unadmitted(job: Job) -> bool:
    """A row of an import has no life of its own yet, only that of its import."""
    return job.source != 0 and job.life == job.source


def _place(job: Job) -> tuple[int, int]:
    return job.source or job.life, job.row
