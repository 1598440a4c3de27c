"""Out of events: a job's history, and what was let go to keep it slim."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import copy

from penstock.errors import Gap
from penstock.kernel.events import (
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
from penstock.kernel.job import ABSENT, Job

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


async def read_back(job: Job, read: Callable[[int], Awaitable[Sequence[Event]]]) -> Job:
    """A completed job with what was let go to keep it slim, where the log still has it."""
    whole = copy(job)
    if job.payload is ABSENT and job.payload_key is None:
        event = await _event_at(job.life, read)
        if isinstance(event, Enqueued):
            whole.payload = event.payload
    if job.result is ABSENT and job.result_key is None:
        for position in reversed(job.trail):
            event = await _event_at(position, read)
            if isinstance(event, Completed):
                whole.result = event.result
                break
    return whole


async def _event_at(
    position: int, read: Callable[[int], Awaitable[Sequence[Event]]]
) -> Event | None:
    try:
        events = await read(commit_of(position))
    except Gap:
        return None
    return next((event for event in events if event.position == position), None)
