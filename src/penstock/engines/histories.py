"""Out of events: a job's history, and what was let go to keep it slim."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import copy
from typing import TypeAlias

from penstock.errors import Gap
from penstock.kernel.events import (
    Adopted,
    Archived,
    Cancelled,
    Claimed,
    Completed,
    Enqueued,
    Event,
    Expired,
    Failed,
    JobEvent,
    Released,
    Replayed,
    Retried,
    Snoozed,
    Unarchived,
    commit_of,
)
from penstock.kernel.job import ABSENT, Job, State

Read: TypeAlias = Callable[[int], Awaitable[Sequence[Event]]]
"""Reads one commit; raises `Gap` where it was vacuumed."""

# Heartbeats are not in it: they change a lease, not the job.
TRANSITIONS = (
    Enqueued,
    Claimed,
    Completed,
    Retried,
    Failed,
    Expired,
    Released,
    Snoozed,
    Cancelled,
    Replayed,
    Archived,
    Unarchived,
)


def history_of(events: Iterable[Event], tenant: str, id: str) -> list[JobEvent]:
    history: list[JobEvent] = []
    for event in events:
        if isinstance(event, TRANSITIONS) and event.id == id and event.tenant == tenant:
            if isinstance(event, Enqueued):
                # A new life of the id: what came before was another job.
                history.clear()
            history.append(event)
    return history


async def read_back(jobs: Sequence[Job | None], read: Read) -> list[Job | None]:
    """Completed jobs with what was let go to keep them slim, where the log still has it.

    A commit is read once, however many of the jobs it is about.
    """
    slim = [job for job in jobs if job is not None and job.state is State.COMPLETED]
    payloads = await _events_at({job.life for job in slim if _lacks_payload(job)}, read)
    results: dict[int, Completed | Adopted] = {}
    sought = [job for job in slim if job.result is ABSENT and job.result_key is None]
    for back in range(1, max((len(job.trail) for job in sought), default=0) + 1):
        # The completion is the last transition, unless the job was archived or adopted since.
        sought = [job for job in sought if job.life not in results and back <= len(job.trail)]
        found = await _events_at({job.trail[-back] for job in sought}, read)
        for event in found.values():
            if isinstance(event, Completed | Adopted):
                results[event.life] = event
    return [job and _filled(job, payloads.get(job.life), results.get(job.life)) for job in jobs]


def _lacks_payload(job: Job) -> bool:
    return job.payload is ABSENT and job.payload_key is None


def _filled(job: Job, enqueued: Event | None, completed: Completed | Adopted | None) -> Job:
    if enqueued is None and completed is None:
        return job
    whole = copy(job)
    if isinstance(enqueued, Enqueued):
        whole.payload = enqueued.payload
    if completed is not None:
        whole.result = completed.result
    return whole


async def _events_at(positions: set[int], read: Read) -> dict[int, Event]:
    """The events at these positions, as far as the log still has them."""
    found: dict[int, Event] = {}
    for commit in sorted({commit_of(position) for position in positions}):
        try:
            events = await read(commit)
        except Gap:
            continue
        found.update((event.position, event) for event in events if event.position in positions)
    return found
