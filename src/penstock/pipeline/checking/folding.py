"""Jobs as they are kept, held against the fold of their own events.

A checkpoint of the log has every live job. In the check each of these is one more row among its
job's events, so jobs are folded side by side, by the kernel's own `born` and `apply`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from penstock.kernel.events import Enqueued, Event, JobEvent, commit_of
from penstock.kernel.invariants import Violation
from penstock.kernel.job import ABSENT, Job
from penstock.kernel.transitions import IllegalTransition, apply, born

OVERDUE_SECONDS_MAX: Final = 3_600.0
"""Dead leases are taken back with the next commit; clocks do not differ by more than this."""


class Kept(Struct, frozen=True, tag="kept", tag_field="event"):
    """A job as a checkpoint has it."""

    job: Job


_decoder: Final[msgspec.json.Decoder[Event | Kept]] = msgspec.json.Decoder(Event | Kept)


def decoded(lines: Iterable[bytes]) -> tuple[list[JobEvent], Job | None]:
    """The events of one job, and the job as it was kept, if it was."""
    rows = [_decoder.decode(line) for line in lines]
    kept = [row.job for row in rows if isinstance(row, Kept)]
    events: list[JobEvent] = [row for row in rows if not isinstance(row, Kept)]  # type: ignore[misc]
    return events, kept[-1] if kept else None


def kept_as_folded(
    events: Sequence[JobEvent], kept: Job | None, checkpoint: int
) -> list[Violation]:
    """14. A checkpoint has every live job, and each as its events up to there make it."""
    subject = kept or events[0]
    try:
        job = folded(event for event in events if commit_of(event.position) <= checkpoint)
    except (IllegalTransition, AttributeError) as error:
        return [Violation(14, f"{error}", checkpoint, subject.tenant, subject.id)]
    if kept is None:
        problem = None if job is None or job.is_terminal else f"it is {job.state} and not there"
    elif job is None:
        problem = "it is there, and none of its events are"
    else:
        problem = None if _comparable(job) == _comparable(kept) else _difference(job, kept)
    if problem is None:
        return []
    message = f"checkpoint {checkpoint}: {problem}"
    return [Violation(14, message, checkpoint, subject.tenant, subject.id)]


def leases_come_back(events: Sequence[JobEvent], newest_at: float) -> list[Violation]:
    """17. A lease that is dead is taken back: of none is the end long past."""
    try:
        job = folded(events)
    except IllegalTransition:
        return []  # the laws of one job have said it
    if job is None or job.lease_until is None or job.is_terminal:
        return []
    overdue = newest_at - job.lease_until
    if overdue <= OVERDUE_SECONDS_MAX:
        return []
    last = events[-1]
    message = f"its lease ran out {overdue:.0f} s before the newest commit, and nobody took it back"
    return [Violation(17, message, commit_of(last.position), job.tenant, job.id, last.position)]


def folded(events: Iterable[JobEvent]) -> Job | None:
    """The latest life that the events tell of."""
    job: Job | None = None
    for event in events:
        if isinstance(event, Enqueued):
            job = born(event)
        elif job is not None and job.life == event.life:
            job = apply(job, event)
    return job


def _comparable(job: Job) -> Job:
    """Without what is for handlers and callers, which may have been let go."""
    return replace(job, payload=ABSENT, result=ABSENT, meta=None, operations=())


def _difference(job: Job, kept: Job) -> str:
    one, other = _comparable(job), _comparable(kept)
    names = [name for name in Job.__struct_fields__ if getattr(one, name) != getattr(other, name)]
    return f"it is not what its events make of it, in {', '.join(names)}"
