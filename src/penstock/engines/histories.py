"""Out of events: a job's history, and what was let go to keep it slim."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from copy import copy
from itertools import chain
from typing import Final, TypeAlias

from msgspec import Raw

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

Read: TypeAlias = Callable[[int, Collection[int]], Awaitable[Sequence[Event]]]
"""Reads those events of one commit; raises `Gap` where it was vacuumed."""

PARALLEL_READS: Final = 32
EVENT_BYTES: Final = 400
"""What an event weighs in memory, roughly."""
_NOTHING: Final = Raw(b"null")
_FAILURES: Final = frozenset({Retried, Failed})

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


def room_of(events: Sequence[Event]) -> int:
    """What events take where so many are remembered: tracebacks count as the events in their place.

    It is asked of every commit, and nearly all have none.
    """
    if _FAILURES.isdisjoint(map(type, events)):
        return len(events)
    failures = [event for event in events if isinstance(event, Retried | Failed)]
    told = sum(len(event.traceback or "") for event in failures)
    return len(events) + told // EVENT_BYTES


def history_of(
    events: Iterable[Event], tenant: str, id: str, life: int | None = None
) -> list[JobEvent]:
    """The transitions of one life of an id, or of its latest."""
    history: list[JobEvent] = []
    for event in events:
        if isinstance(event, TRANSITIONS) and event.id == id and event.tenant == tenant:
            if life is not None and event.life != life:
                continue
            if isinstance(event, Enqueued):
                # A new life of the id: what came before was another job.
                history.clear()
            history.append(event)
    return history


async def follow_trail(positions: Iterable[int], read: Read) -> list[JobEvent]:
    """The transitions at these positions and at those that they point back to, oldest first, as far
    as the log still has them.

    What a trail has let go is told by an event that is still in it or was let go later, so each
    round finds the way to the one before it.
    """
    found: dict[int, Event] = {}
    wanted = set(positions)
    while wanted:
        news = await _events_at(wanted, read)
        found.update(news)
        told = (
            event.earlier
            for event in news.values()
            if isinstance(event, Claimed | Replayed | Archived)
        )
        wanted = set(chain.from_iterable(told)).difference(found)
    history = (found[position] for position in sorted(found))
    return [event for event in history if isinstance(event, TRANSITIONS)]


async def read_back(jobs: Sequence[Job | None], read: Read) -> list[Job | None]:
    """Completed jobs with what was let go to keep them slim, where the log still has it. What is
    absent afterwards was vacuumed.

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
        whole.payload = or_nothing(enqueued.payload)
    if completed is not None:
        whole.result = or_nothing(completed.result)
    return whole


def or_nothing(value: Raw) -> Raw:
    """As an event has it. One without a value has none, which is not to be taken for vacuumed."""
    return _NOTHING if value is ABSENT else value


async def _events_at(positions: Collection[int], read: Read) -> dict[int, Event]:
    """The events at these positions, as far as the log still has them."""
    by_commit: dict[int, list[int]] = {}
    for position in sorted(positions):
        by_commit.setdefault(commit_of(position), []).append(position)

    async def read_one(commit: int) -> Sequence[Event]:
        try:
            return await read(commit, by_commit[commit])
        except Gap:
            return ()

    found: dict[int, Event] = {}
    commits = list(by_commit)
    for start in range(0, len(commits), PARALLEL_READS):
        for events in await asyncio.gather(*map(read_one, commits[start : start + PARALLEL_READS])):
            found.update((event.position, event) for event in events)
    return found
