"""The decisions: what a command means for the queue as it is, at one moment.

Each function looks at the state and returns the event that should happen, or an answer where
nothing has to; what is not allowed raises and changes nothing. None of them changes the state:
`batch` installs the events. A lease is dead once its time and the allowed clock skew have passed,
whether or not somebody has recorded it yet.

The three events that every job has are made with positional arguments, in the order of their
fields: naming them takes four times as long, and that is a tenth of a job's whole way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from penstock.errors import (
    InvalidJob,
    JobCancelled,
    JobNotFound,
    KeyHeld,
    LeaseLost,
    WrongState,
)
from penstock.kernel.commands import (
    Beat,
    Claim,
    Failure,
    Receipt,
    Return,
    Submission,
    Success,
)
from penstock.kernel.events import (
    EXPIRED,
    UNDECODABLE,
    Archived,
    Cancelled,
    Claimed,
    Completed,
    Enqueued,
    Expired,
    Extended,
    Failed,
    Progressed,
    Released,
    Replayed,
    Retried,
    Snoozed,
    Unarchived,
)
from penstock.kernel.job import Job, Lease, State
from penstock.kernel.moves import fence_base
from penstock.kernel.segments import Head
from penstock.kernel.settings import with_defaults
from penstock.kernel.state import QueueState
from penstock.kernel.tenancy import Hold
from penstock.kernel.transitions import earlier_part

EXPIRIES_PER_BATCH_MAX: Final = 100_000
UNDECODABLE_SECONDS_MIN: Final = 1.0
"""A job that nobody here can read is not due again at once, whatever its policy says: it would be
first in line each time, use up its attempts before somebody who can read it has one, and those
behind it would wait meanwhile."""
_DEAD: Final = frozenset({State.FAILED, State.CANCELLED})
"""An id whose job is one of these, enqueued again, begins a new life."""


class Moment(Struct):
    """When and where something is decided: the batch's time and the next free log position."""

    at: float
    position: int
    luck: Callable[[], float]
    """Numbers in [0, 1), to spread retries."""


def enqueue(state: QueueState, tenant: str, new: Submission, now: Moment) -> Enqueued | Receipt:
    known = state.find(tenant, new.id, now.at)
    if known is not None:
        if known.state not in _DEAD or _is_repeat(new, known.operations):
            return _receipt(known)
    elif new.operation is not None:
        departed = state.departed(tenant, new.id, now.at)
        if departed is not None and _is_repeat(new, departed.operations):
            return Receipt(new.id, "duplicate", None)
    if state.unadmitted(tenant, new.id) is not None:
        return Receipt(new.id, "duplicate", State.PENDING)
    key_until = None
    if new.key is not None:
        if new.unique_seconds > 0:
            key_until = now.at + new.unique_seconds
        hold = state.holder(tenant, (new.queue, new.type, new.key), now.at)
        if hold is not None:
            if known is None or hold.life != known.life:
                return _held_key(state, tenant, hold, now.at)
            # It passes from the life before to this one, and what was promised then still holds.
            key_until = max(key_until or 0.0, hold.until or 0.0)
    if new.payload_key is not None:
        require_unswept(state, "payload", new.payload_key)
    due = now.at + new.delay_seconds if new.run_at is None else new.run_at
    attempts, retry, timeout_seconds = with_defaults(new, state.settings)
    return Enqueued(
        now.position, now.at, tenant, new.queue, new.type, new.id, now.position,
        max(now.at, due), new.payload, new.codec, new.payload_key, new.priority,
        attempts, retry, timeout_seconds, new.key, key_until, new.meta, new.trace,
        None if new.operation == new.id else new.operation,
    )  # fmt: skip


def claim(
    state: QueueState, command: Claim, count: int, now: Moment
) -> tuple[list[Claimed], Head | None]:
    """The next claims, up to a count; or up to a head, whose jobs have to be admitted first."""
    tenancy = state.tenants.get(command.tenant)
    if tenancy is None:
        return [], None
    at = now.at
    lease_until = at + command.lease_seconds
    base = fence_base(state.moves)
    events: list[Claimed] = []
    for entry in tenancy.lanes.in_order(command.queues, command.types):
        job: Job | Head = entry[-1]
        if job.run_at > at:
            # Lanes may hold what another clock called due; here only this moment's time counts.
            continue
        if isinstance(job, Head):
            return events, job
        position = now.position + len(events)
        event = Claimed(
            position, at, job.tenant, job.queue, job.type, job.id, job.life,
            job.attempt + 1, command.operation, lease_until, job.enqueued_at, job.run_at,
            command.worker, base and base + position, job.trail and earlier_part(job.trail),
        )  # fmt: skip
        events.append(event)
        if len(events) == count:
            break
    return events, None


def heartbeat(state: QueueState, tenant: str, beat: Beat, now: Moment) -> Extended | Progressed:
    job = held(state, tenant, beat.id, beat.lease, now.at)
    assert job.lease_until is not None
    # Never shorter: a heartbeat can't take away what the holder was promised before.
    lease_until = max(job.lease_until, now.at + beat.lease_seconds)
    if beat.progress is None:
        return Extended(
            now.position, now.at, tenant, job.queue, job.type, job.id, job.life,
            job.attempt, lease_until, job.worker,
        )  # fmt: skip
    return Progressed(
        now.position, now.at, tenant, job.queue, job.type, job.id, job.life,
        job.attempt, lease_until, beat.progress, job.worker, beat.progress_message,
    )  # fmt: skip


def ack(state: QueueState, tenant: str, success: Success, now: Moment) -> Completed | None:
    """None: this lease completed it before, and said so then."""
    job = state.find(tenant, success.id, now.at)
    if job is not None and job.state is State.COMPLETED and job.ended_lease == success.lease:
        return None
    job = _held(state, job, success.id, success.lease, now.at)
    if success.result_key is not None:
        require_unswept(state, "result", success.result_key)
    return Completed(
        now.position, now.at, tenant, job.queue, job.type, job.id, job.life,
        job.attempt, job.failures, job.enqueued_at, job.run_at, job.started_at, job.worker,
        job.priority, job.max_attempts, job.key, job.meta, job.trace, job.errors,
        success.result, success.result_codec, success.result_key,
    )  # fmt: skip


def nack(state: QueueState, tenant: str, failure: Failure, now: Moment) -> Retried | Failed | None:
    """None: this lease ended its attempt before, and said so then."""
    if _settled(state, tenant, failure.id, failure.lease, now.at):
        return None
    job = held(state, tenant, failure.id, failure.lease, now.at)
    if not failure.retry or job.failures + 1 >= job.max_attempts:
        return _failed(job, failure.kind, failure.error, now, failure.traceback)
    return Retried(
        **_attempt_end(job, now, failures=job.failures + 1),
        run_at=_retry_at(job, failure.delay_seconds, now, failure.kind),
        kind=failure.kind,
        error=failure.error,
        traceback=failure.traceback,
    )


def release(state: QueueState, tenant: str, item: Return, now: Moment) -> Released | Snoozed | None:
    if _settled(state, tenant, item.id, item.lease, now.at):
        return None
    job = held(state, tenant, item.id, item.lease, now.at)
    end = _attempt_end(job, now, failures=job.failures)
    if item.snooze_until is None:
        return Released(**end, run_at=now.at)
    return Snoozed(**end, run_at=max(item.snooze_until, now.at))


def dead_leases(state: QueueState, at: float) -> list[Job]:
    """The jobs to expire: their leases ran out, and the allowed skew has passed."""
    if state.move is not None:
        return []
    dead = state.leases.run_out(at - state.settings.clock_skew_seconds)
    # The others are as dead, and are recorded by the next batches.
    return dead[:EXPIRIES_PER_BATCH_MAX]


def expire(job: Job, now: Moment) -> Expired | Failed:
    message = f"the lease of worker {job.worker or 'unnamed'} ran out"
    if job.failures + 1 >= job.max_attempts:
        return _failed(job, EXPIRED, message, now)
    return Expired(
        **_attempt_end(job, now, failures=job.failures + 1),
        run_at=_retry_at(job, None, now),
        kind=EXPIRED,
        error=message,
    )


def cancel(state: QueueState, tenant: str, id: str, now: Moment) -> Cancelled | str:
    job = state.find(tenant, id, now.at)
    if job is None:
        return "not_found"
    if job.is_terminal:
        return job.state.value
    return Cancelled(**_job_end(job, now, failures=job.failures))


def replay(state: QueueState, tenant: str, id: str, now: Moment) -> Replayed | State:
    """A state: it was opened before, so there is nothing to do."""
    if state.unadmitted(tenant, id) is not None:
        return State.PENDING
    job = known(state, tenant, id, now.at)
    if not job.is_terminal:
        return job.state
    if job.state is State.COMPLETED:
        raise WrongState(id, job.state.value, "replay")
    if _is_key_taken(state, job, now.at):
        assert job.key is not None
        hold = state.holder(tenant, (job.queue, job.type, job.key), now.at)
        assert hold is not None
        raise KeyHeld(id, job.key, hold.id)
    return _reopened(job, now)


def archive(state: QueueState, tenant: str, id: str, now: Moment) -> Archived | None:
    if state.unadmitted(tenant, id) is not None:
        raise WrongState(id, State.PENDING.value, "archive")
    job = known(state, tenant, id, now.at)
    if not job.is_terminal:
        raise WrongState(id, job.state.value, "archive")
    if job.archived_at is not None:
        return None
    return Archived(
        now.position, now.at, tenant, job.queue, job.type, id, job.life, earlier_part(job.trail)
    )


def unarchive(state: QueueState, tenant: str, id: str, now: Moment) -> Unarchived | None:
    if state.unadmitted(tenant, id) is not None:
        return None
    job = known(state, tenant, id, now.at)
    if job.archived_at is None:
        return None
    return Unarchived(now.position, now.at, tenant, job.queue, job.type, id, job.life)


def known(state: QueueState, tenant: str, id: str, at: float) -> Job:
    job = state.find(tenant, id, at)
    if job is None:
        raise JobNotFound(id)
    return job


def held(state: QueueState, tenant: str, id: str, lease: Lease, at: float) -> Job:
    """The running job that this lease is on, or the reason why it is not."""
    return _held(state, state.find(tenant, id, at), id, lease, at)


def _held(state: QueueState, job: Job | None, id: str, lease: Lease, at: float) -> Job:
    if job is None:
        raise LeaseLost(id)
    if job.state is State.CANCELLED:
        raise JobCancelled(id)
    if job.state is not State.RUNNING or job.lease != lease or is_dead(state, job, at):
        raise LeaseLost(id)
    return job


def is_dead(state: QueueState, job: Job, at: float) -> bool:
    assert job.lease_until is not None
    return job.lease_until + state.settings.clock_skew_seconds <= at


def _settled(state: QueueState, tenant: str, id: str, lease: Lease, at: float) -> bool:
    """Whether this lease gave the job back, or failed it, before."""
    job = state.find(tenant, id, at)
    # A completion or a cancellation is no answer to a nack: `held` says what happened instead.
    is_another_end = job is not None and job.state in (State.COMPLETED, State.CANCELLED)
    return job is not None and job.ended_lease == lease and not is_another_end


def _is_key_taken(state: QueueState, job: Job, at: float) -> bool:
    if job.key is None:
        return False
    hold = state.holder(job.tenant, (job.queue, job.type, job.key), at)
    return hold is not None and hold.life != job.life


def _is_repeat(new: Submission, operations: tuple[str, ...]) -> bool:
    """Whether this very call began one of the lives that are remembered."""
    operation = new.operation
    return operation is None or operation == new.id or operation in operations


def _held_key(state: QueueState, tenant: str, hold: Hold, at: float) -> Receipt:
    holder = state.find(tenant, hold.id, at)
    if holder is None or holder.life != hold.life:
        return Receipt(hold.id, "duplicate", None, life=hold.life)
    return _receipt(holder)


def _receipt(job: Job) -> Receipt:
    if job.state is State.COMPLETED:
        return Receipt(
            job.id, "completed", job.state, job.result, job.result_codec, job.result_key, job.life
        )
    return Receipt(job.id, "duplicate", job.state, life=job.life)


def _reopened(job: Job, now: Moment) -> Replayed:
    return Replayed(
        now.position, now.at, job.tenant, job.queue, job.type, job.id, job.life, now.at,
        earlier_part(job.trail),
    )  # fmt: skip


def _failed(job: Job, kind: str, error: str, now: Moment, traceback: str | None = None) -> Failed:
    end = _job_end(job, now, failures=job.failures + 1)
    return Failed(**end, kind=kind, error=error, traceback=traceback)


def _retry_at(job: Job, delay_seconds: float | None, now: Moment, kind: str = "") -> float:
    if delay_seconds is None:
        delay_seconds = job.retry.delay_seconds(job.failures + 1, now.luck())
    if kind == UNDECODABLE:
        delay_seconds = max(delay_seconds, UNDECODABLE_SECONDS_MIN)
    return now.at + delay_seconds


def _attempt_end(job: Job, now: Moment, failures: int) -> dict[str, Any]:
    return {
        "position": now.position,
        "at": now.at,
        "tenant": job.tenant,
        "queue": job.queue,
        "type": job.type,
        "id": job.id,
        "life": job.life,
        "attempt": job.attempt,
        "failures": failures,
        "enqueued_at": job.enqueued_at,
        "due_at": job.run_at,
        "started_at": job.started_at,
        "worker": job.worker,
    }


def _job_end(job: Job, now: Moment, failures: int) -> dict[str, Any]:
    return {
        **_attempt_end(job, now, failures),
        "priority": job.priority,
        "max_attempts": job.max_attempts,
        "key": job.key,
        "meta": job.meta,
        "trace": job.trace,
        "errors": job.errors,
    }


def require_unswept(state: QueueState, what: str, key: str) -> None:
    """A side object that a sweep may have deleted can't be published any more."""
    if named_at(key) < state.swept_before:
        raise InvalidJob(what, key, "it was stored too long ago and may be gone; send it again")


def named_at(key: str) -> float:
    """When a side object was named: its nonce begins with the milliseconds, in hex."""
    try:
        return int(key.rsplit("/", 1)[-1].split("-", 1)[0], 16) / 1_000
    except ValueError:
        # Not one of ours: it was never named.
        return 0.0
