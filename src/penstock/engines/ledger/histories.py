"""A job's history, out of events: its transitions, of its latest life."""

from __future__ import annotations

from collections.abc import Iterable

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
)

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
