"""What becomes of a task's document: pure steps, for those who then put it.

Nothing is decided here: events come from the kernel, and the job after them too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from penstock.kernel.commands import Submission
from penstock.kernel.departures import REMEMBERED_SECONDS, Departed
from penstock.kernel.events import (
    Cancelled,
    Completed,
    Enqueued,
    Extended,
    Failed,
    JobEvent,
    Progressed,
)
from penstock.kernel.job import Job, State
from penstock.kernel.stamps import Stamp, next_stamp, stamp_of
from penstock.kernel.transitions import apply, born
from penstock.wire.task import Opening, Task

HEARTBEATS_KEPT: Final = 16
"""A job that runs for a day beats thousands of times; its object has to stay small."""
EVENTS_KEPT: Final = 2_000
VOIDED_KEPT: Final = 8
LATE_KEPT: Final = 8
LATE_SECONDS: Final = 5.0
"""An object whose last event is older than its last put by this much was put late."""

Left = dict[str, dict[State, int]]


def advanced(
    task: Task,
    modified_at: float | None,
    events: Sequence[JobEvent],
    job: Job,
    left: Iterable[Job],
    stamp: Stamp,
) -> Task:
    """After these events. `modified_at` is when the document that they were decided on was put."""
    is_new = task.job is None or stretch_of(task.job) != stretch_of(job)
    return replace(
        voided(task, modified_at),
        job=job,
        events=_trimmed((*task.events, *events)),
        left=with_left(task.left, left),
        quiet=False,
        stamp=_kept(stamp),
        early_seconds=early_seconds(job, stamp) if is_new else task.early_seconds,
    )


def opening(task: Task, event: Opening, modified_at: float | None, stamp: Stamp) -> Task:
    """The same, about to take its key by this event."""
    # Another's opening that stands there was given up on.
    return replace(voided(task, modified_at), opening=event, stamp=_kept(stamp))


def opened(task: Task) -> Task:
    """Its key's object names the opening: it is true."""
    event = task.opening
    assert event is not None
    task, stamp = replace(task, opening=None), task.stamp or Stamp(event.at, event.at)
    if isinstance(event, Enqueued):
        left = () if task.job is None else (task.job,)
        return advanced(task, None, [event], born(event, _operations(task)), left, stamp)
    assert task.job is not None
    return advanced(task, None, [event], apply(task.job, event), (), stamp)


def voided(task: Task, modified_at: float | None) -> Task:
    """The opening, if any, will never be true, whatever its key's object may come to say."""
    positions = task.voided
    if task.opening is not None:
        positions = (*positions[1 - VOIDED_KEPT :], task.opening.position)
    late = _late(task, modified_at)
    return replace(task, opening=None, voided=positions, late=late, quiet=True)


def departed(task: Task, modified_at: float, now: float) -> Task:
    """Its job has left; its events stay."""
    assert task.job is not None
    left, late = with_left(task.left, [task.job]), _late(task, modified_at)
    behind = Departed(now + REMEMBERED_SECONDS, task.job.operations)
    return replace(task, job=None, departed=behind, left=left, late=late, quiet=True)


def emptied(task: Task) -> Task:
    """Without its events, which nobody needs any more."""
    left = task.left if task.job is None else with_left(task.left, [task.job])
    return replace(
        task, job=None, departed=None, left=left, late=(), voided=(), quiet=True, events=(),
        buried=task.made,
    )  # fmt: skip


def is_id_made(new: Submission) -> bool:
    """Whether the id was made for this job, and not chosen by whoever hands it in."""
    return new.operation is None or new.operation == new.id


def spared(task: Task) -> Task:
    """A buried one whose id is used again: nobody deletes it from now on."""
    return replace(task, made=False, buried=False, spared=True, quiet=True)


def sealed(task: Task, modified_at: float, move: str) -> Task:
    """The same, put by a move, so that whoever has read it before can change it no more."""
    return replace(voided(task, modified_at), sealed=move)


def timed(task: Task, modified_at: float, stamp: Stamp) -> Task:
    """The same, its time going on from that clock on, and its entry filed by it."""
    early = 0.0 if task.job is None else early_seconds(task.job, stamp)
    late = _late(task, modified_at)
    return replace(task, stamp=_kept(stamp), early_seconds=early, late=late, quiet=True)


def taken_back(task: Task) -> Task:
    """Without the job that was the object's first, and that nobody was told of."""
    return Task(
        task.tenant,
        task.id,
        voided=tuple(event.position for event in task.events)[-VOIDED_KEPT:],
        quiet=True,
    )


def adopting(task: Task, move: str) -> Task:
    """As the move may adopt a job into it: all that has no seal came after the closing."""
    return replace(task if task.sealed else taken_back(task), sealed=move)


def is_forgetful(task: Task) -> bool:
    """Whether there may have been more events than are in it."""
    return not task.events or len(task.events) >= EVENTS_KEPT


def last_position(task: Task) -> int:
    """No event of this task stands higher, nor one that may yet be true."""
    newest = task.events[-1].position if task.events else 0
    return max(newest, task.opening.position if task.opening else 0, *task.voided, 0)


def end_of(task: Task) -> JobEvent | None:
    """The event that ended its job, if that has ended."""
    if task.job is None or not task.job.is_terminal:
        return None
    ends = Completed | Failed | Cancelled
    return next((event for event in reversed(task.events) if isinstance(event, ends)), None)


def last_at(task: Task) -> float:
    return task.events[-1].at if task.events else 0.0


def stamp_in(task: Task) -> Stamp:
    """Its newest time."""
    return task.stamp or stamp_of(last_at(task), None)


def time_from(stamp: Stamp | None, last_at: float, clock: float) -> float:
    """The time of a job of which only these are known, when that is the clock's."""
    return next_stamp(stamp or stamp_of(last_at, None), clock).at


def time_in(task: Task, clock: float) -> float:
    """The time of this job when that is the clock's."""
    return time_from(task.stamp, last_at(task), clock)


def early_seconds(job: Job, stamp: Stamp) -> float:
    """By how much the clock is behind the job's own time when it is due, or its lease over."""
    due_at = job.run_at if job.state is State.PENDING else job.lease_until
    return 0.0 if due_at is None else round(due_at - stamp.clock_at(due_at), 6)


def is_late(task: Task, modified_at: float) -> bool:
    """Whether it was put long after its last event."""
    return modified_at - last_at(task) >= LATE_SECONDS


def shows(later: Task, earlier: Task) -> bool | None:
    """Whether a task shows that it once was the earlier one; None if it would not anyway."""
    if earlier.quiet or earlier.opening is not None:
        return None
    event = earlier.events[-1]
    if event in later.events:
        return True
    was_kept = not isinstance(event, Extended | Progressed) and len(later.events) < EVENTS_KEPT
    return False if was_kept else None


def stretch_of(job: Job) -> int:
    """The position since which it has been pending, or running."""
    return job.trail[-1] if job.trail else job.life


def with_left(left: Left, jobs: Iterable[Job]) -> Left:
    counts = {queue: dict(states) for queue, states in left.items()}
    for job in jobs:
        states = counts.setdefault(job.queue, {})
        states[job.state] = states.get(job.state, 0) + 1
    return counts


def _kept(stamp: Stamp) -> Stamp | None:
    return None if stamp.lagging_clock is None else stamp


def _operations(task: Task) -> tuple[str, ...]:
    """The calls that began the lives that the id has had."""
    if task.job is not None:
        return task.job.operations
    return () if task.departed is None else task.departed.operations


def _trimmed(events: tuple[JobEvent, ...]) -> tuple[JobEvent, ...]:
    beats = [event for event in events if isinstance(event, Extended | Progressed)]
    if len(beats) > HEARTBEATS_KEPT:
        gone = {event.position for event in beats[:-HEARTBEATS_KEPT]}
        events = tuple(event for event in events if event.position not in gone)
    if len(events) <= EVENTS_KEPT:
        return events
    # What began its jobs stays: it has their payloads.
    spare = len(events) - EVENTS_KEPT
    begun = tuple(event for event in events[:spare] if isinstance(event, Enqueued))[-1:]
    return (*begun, *events[spare:])


def _late(task: Task, modified_at: float | None) -> tuple[tuple[int, float], ...]:
    if task.quiet or modified_at is None or not is_late(task, modified_at):
        return task.late
    if not task.events:
        return task.late
    note = (task.events[-1].position, modified_at)
    return task.late if note in task.late else (*task.late[1 - LATE_KEPT :], note)
