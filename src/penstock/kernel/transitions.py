"""The transitions of a job, all of them; no other module changes a job's state.

`TABLE` maps (state, event) to the next state; what is not in it can't happen. The diagram in the
docs is drawn from it. A job that is adopted from another queue begins in the state that it had
there, whatever that is, and so is not in the table. `born` makes a job from the event that begins
it and `apply` makes the next job from a job and an event; both only install what the event says,
nothing is decided here.
"""

from __future__ import annotations

from typing import Final, assert_never, get_args

from penstock.kernel.events import (
    EXPIRED,
    Admitted,
    Adopted,
    Archived,
    Cancelled,
    Claimed,
    Completed,
    Enqueued,
    Expired,
    Extended,
    Failed,
    JobEvent,
    Progressed,
    Released,
    Replayed,
    Retried,
    Snoozed,
    Unarchived,
)
from penstock.kernel.job import ABSENT, AttemptError, Job, State

TABLE: Final[dict[tuple[State | None, str], State]] = {
    (None, "enqueued"): State.PENDING,
    (None, "admitted"): State.PENDING,
    (State.PENDING, "claimed"): State.RUNNING,
    (State.PENDING, "cancelled"): State.CANCELLED,
    (State.RUNNING, "extended"): State.RUNNING,
    (State.RUNNING, "progressed"): State.RUNNING,
    (State.RUNNING, "completed"): State.COMPLETED,
    (State.RUNNING, "failed"): State.FAILED,
    (State.RUNNING, "cancelled"): State.CANCELLED,
    (State.RUNNING, "retried"): State.PENDING,
    (State.RUNNING, "expired"): State.PENDING,
    (State.RUNNING, "released"): State.PENDING,
    (State.RUNNING, "snoozed"): State.PENDING,
    (State.FAILED, "replayed"): State.PENDING,
    (State.CANCELLED, "replayed"): State.PENDING,
    (State.COMPLETED, "archived"): State.COMPLETED,
    (State.FAILED, "archived"): State.FAILED,
    (State.CANCELLED, "archived"): State.CANCELLED,
    (State.COMPLETED, "unarchived"): State.COMPLETED,
    (State.FAILED, "unarchived"): State.FAILED,
    (State.CANCELLED, "unarchived"): State.CANCELLED,
}

_CARRIED: Final = (
    "state", "enqueued_at", "attempt", "failures", "result_codec", "result_key", "errors",
    "progress", "worker", "lease", "lease_until", "ended_lease", "started_at", "ended_at",
    "archived_at", "progress_message", "updated_at", "operations",
)  # fmt: skip
"""What an adopted job brings along beside what every job begins with."""

OPERATIONS_KEPT: Final = 8
"""Of so many lives of an id the calls that began them are known."""
TRAIL_POSITIONS_MAX: Final = 64
"""With this many the next claim, replay or archival takes the older half over (`earlier_part`). No
job goes on for long without one of these, so a trail has a few more at most."""


class IllegalTransition(AssertionError):
    """An event met a job in a state that it can't happen in: a bug, or a log that was altered."""

    def __init__(self, state: State | None, event: str) -> None:
        super().__init__(f"{event!r} can't happen to a job that is {state}")


def next_state(state: State | None, event: str) -> State:
    try:
        return TABLE[state, event]
    except KeyError:
        raise IllegalTransition(state, event) from None


# The same table by the event's class: looking up a class's tag takes longer than all the rest.
_NEXT: Final[dict[tuple[State, type[JobEvent]], State]] = {
    (state, kind): after
    for (state, name), after in TABLE.items()
    for kind in get_args(JobEvent)
    if state is not None and kind.__struct_config__.tag == name
}


def born(event: Enqueued, earlier: tuple[str, ...] = ()) -> Job:
    """`earlier` are the operations of the lives that its id had before."""
    # `copy` lets go of the buffer that a decoded payload is a view into; a fresh one is kept as is.
    job = Job(
        event.id, event.tenant, event.queue, event.type, event.life, event.at, event.run_at,
        event.payload.copy(), event.codec, event.payload_key, State.PENDING, event.priority,
        0, 0, event.max_attempts, event.retry, event.timeout_seconds, event.key,
        event.key_until, event.meta, event.trace,
    )  # fmt: skip
    job.updated_at = event.at
    if event.operation is not None:
        job.operations = (*earlier[1 - OPERATIONS_KEPT :], event.operation)
    elif earlier:
        job.operations = earlier
    if isinstance(event, Admitted):
        job.enqueued_at, job.source, job.row = event.enqueued_at, event.source, event.row
    elif isinstance(event, Adopted):
        _go_on(job, event)
    return job


def earlier_part(trail: tuple[int, ...]) -> tuple[int, ...]:
    """What a job's trail lets go with its next transition, which has to say where that is."""
    return trail[: TRAIL_POSITIONS_MAX // 2] if len(trail) >= TRAIL_POSITIONS_MAX else ()


def state_after(before: State | None, event: JobEvent) -> State | None:
    """The state that an event leads to; None: it can't happen."""
    return event.state if isinstance(event, Adopted) else TABLE.get((before, event.event))


def apply(job: Job, event: JobEvent) -> Job:
    """The job after the event. The one that was passed in stays as it was."""
    after: Job = job.__copy__()  # type: ignore[attr-defined]  # copy.copy would only look it up
    after.updated_at = event.at
    after.state = _NEXT.get((job.state, event.__class__)) or next_state(job.state, event.event)
    dropped = 0
    match event:
        case Claimed():
            dropped = len(event.earlier)
            after.attempt = event.attempt
            after.worker = event.worker
            after.lease = event.lease
            after.lease_until = event.lease_until
            after.started_at = event.at
            after.progress = after.progress_message = None
        case Completed():
            _end(after, event.at)
            after.payload = ABSENT
            after.result = event.result.copy()
            after.result_codec = event.result_codec
            after.result_key = event.result_key
        case Extended() | Progressed():
            after.lease_until = event.lease_until
            if isinstance(event, Progressed):
                after.progress, after.progress_message = event.progress, event.progress_message
            return after
        case Retried() | Expired():
            _let_go(after)
            if isinstance(event, Expired):
                after.ended_lease = None
            after.failures = event.failures
            after.errors = (*job.errors, _error(event))
            after.run_at = event.run_at
        case Released() | Snoozed():
            _let_go(after)
            after.run_at = event.run_at
        case Failed():
            _end(after, event.at)
            if event.kind == EXPIRED:
                after.ended_lease = None
            after.failures = event.failures
            after.errors = (*job.errors, _error(event))
        case Cancelled():
            _end(after, event.at)
        case Replayed():
            dropped = len(event.earlier)
            after.run_at = event.run_at
            after.failures = 0
            after.ended_at = after.archived_at = None
        case Archived():
            dropped = len(event.earlier)
            after.archived_at = event.at
        case Unarchived():
            after.archived_at = None
        case Enqueued():
            raise IllegalTransition(job.state, event.event)
        case _:
            assert_never(event)
    after.trail = (*job.trail[dropped:], event.position)
    return after


def _go_on(job: Job, event: Adopted) -> None:
    """From where the job was when it left the other queue."""
    for name in _CARRIED:
        setattr(job, name, getattr(event, name))
    job.result = event.result.copy()
    if job.state is State.COMPLETED:
        job.payload = ABSENT
    job.trail = (event.position,)


def _let_go(job: Job) -> None:
    # Its holder ended it and may say so again; where time did, the callers take this back.
    job.ended_lease = job.lease
    job.lease = None
    job.lease_until = None


def _end(job: Job, at: float) -> None:
    _let_go(job)
    job.ended_at = at


def _error(event: Retried | Expired | Failed) -> AttemptError:
    return AttemptError(event.attempt, event.at, event.kind, event.error)
