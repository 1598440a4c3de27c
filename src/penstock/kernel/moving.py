"""The decisions about moves: closing the source, filling the target, opening it.

Like those in `decide` they look and change nothing; `batch` installs the events. Each can be asked
again after an answer was lost or a process was killed, and then finds what it has done.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.errors import (
    MoveAborted,
    MoveBegun,
    MoveConflict,
    MoveUnknown,
    MoveUnverified,
    RunStaged,
)
from penstock.kernel.commands import (
    AbortFilling,
    Adopt,
    AnyCommand,
    BeginFilling,
    CarriedKey,
    CarryDepartures,
    CarryKeys,
    DropConsumer,
    EndFilling,
    FindConflicts,
    MoveCommand,
    MoveConsumer,
    MoveQueue,
    Newcomer,
    NoteCheckpoint,
    ReopenQueue,
)
from penstock.kernel.decide import Moment, require_unswept
from penstock.kernel.events import (
    SYSTEM_TENANT,
    Adopted,
    Configured,
    DepartureCarried,
    Event,
    FillingAborted,
    FillingBegun,
    FillingEnded,
    KeyCarried,
    Paused,
    QueueMoved,
    QueueReopened,
)
from penstock.kernel.job import Job
from penstock.kernel.moves import Move, Phase, fence_base
from penstock.kernel.settings import DEFAULT_SETTINGS
from penstock.kernel.state import QueueState

_ALLOWED: Final = MoveCommand | NoteCheckpoint | MoveConsumer | DropConsumer | FindConflicts
"""What a closed queue still does: moves, and what touches no job, since logs are read to their
end."""


def require_open(state: QueueState, command: AnyCommand) -> None:
    """Refuses what a closed queue does no more, or not yet."""
    move = state.move
    if move is not None and not isinstance(command, _ALLOWED):
        raise move.refusal()


# The source


def move_queue(state: QueueState, command: MoveQueue, now: Moment) -> QueueMoved | Move:
    """The move as it is recorded, where the queue was moved to the same target before."""
    move = state.move
    if move is not None:
        if move.phase is Phase.MOVED and move.peer == command.target:
            return move
        raise move.refusal()
    if (aborted := known_move(state, command.move)) is not None:
        raise MoveAborted(aborted.peer)
    if state.imports.staged:
        # Its rows come in batches that could not all get in.
        raise RunStaged(min(state.imports.staged))
    fences = fence_base(state.moves) + now.position
    return QueueMoved(now.position, now.at, SYSTEM_TENANT, command.move, command.target, fences)


def reopen_queue(state: QueueState, command: ReopenQueue, now: Moment) -> QueueReopened | None:
    move = state.move
    if move is None or move.id != command.move or move.phase is not Phase.MOVED:
        return None
    return QueueReopened(now.position, now.at, SYSTEM_TENANT, move.id)


# The target


def begin_filling(state: QueueState, command: BeginFilling, now: Moment) -> FillingBegun | Move:
    """The move as it is recorded, where it began before or is over."""
    move = state.move
    if move is not None:
        if move.phase is Phase.FILLING and move.peer == command.source:
            return move
        raise move.refusal()
    if (known := known_move(state, command.move)) is not None:
        if known.phase is Phase.ABORTED:
            raise MoveAborted(known.peer)
        return known
    as_of = min(command.as_of, now.at)
    return FillingBegun(now.position, now.at, SYSTEM_TENANT, command.move, command.source, as_of)


def adopt(state: QueueState, command: Adopt, job: Job, now: Moment) -> Adopted | None:
    """None: it was adopted before."""
    move = _filling(state, command.move)
    if move.phase is Phase.FILLED:
        return None
    known = state.find(command.tenant, job.id, now.at)
    if known is not None and known.life > move.position:
        return None
    key = None if job.is_terminal else job.key
    newcomer = Newcomer(job.id, job.queue, job.type, key)
    if conflicts := list(_conflicts(state, command.tenant, newcomer, now.at)):
        raise MoveConflict(conflicts)
    for what, side in (("payload", job.payload_key), ("result", job.result_key)):
        if side is not None:
            require_unswept(state, what, side)
    return Adopted(
        now.position, now.at, command.tenant, job.queue, job.type, job.id, now.position,
        job.run_at, job.payload, job.codec, job.payload_key, job.priority, job.max_attempts,
        job.retry, job.timeout_seconds, job.key, job.key_until, job.meta, job.trace, None,
        job.state, job.enqueued_at, job.attempt, job.failures, job.result, job.result_codec,
        job.result_key, job.errors, job.progress, job.worker, job.lease, job.lease_until,
        job.ended_lease, job.started_at, job.ended_at, job.archived_at, job.progress_message,
        job.updated_at, job.operations,
    )  # fmt: skip


def carry_key(
    state: QueueState, command: CarryKeys, carried: CarriedKey, now: Moment
) -> KeyCarried | None:
    """None: it is held already, or its time is up."""
    move = _filling(state, command.move)
    scope = (carried.queue, carried.type, carried.key)
    if move.phase is Phase.FILLED or carried.until <= now.at:
        return None
    hold = state.holder(command.tenant, scope, now.at)
    if hold is not None:
        if hold.id == carried.id and hold.life > move.position:
            return None
        raise MoveConflict([_key_in_the_way(command.tenant, carried.key, hold.id)])
    job = state.find(command.tenant, carried.id, now.at) if carried.has_job else None
    return KeyCarried(
        now.position, now.at, command.tenant, *scope, carried.id,
        now.position if job is None else job.life, carried.until,
    )  # fmt: skip


def carry_departure(
    state: QueueState, command: CarryDepartures, id: str, now: Moment
) -> DepartureCarried | None:
    """None: it is known already, its time is up, or its id has a job here."""
    move, left = _filling(state, command.move), command.departed[id]
    if move.phase is Phase.FILLED or left.until <= state.as_of(now.at):
        return None
    if state.find(command.tenant, id, now.at) is not None:
        return None
    known = state.departed(command.tenant, id, now.at)
    if known is not None and known.until >= left.until:
        return None
    return DepartureCarried(now.position, now.at, command.tenant, id, left.until, left.operations)


def end_filling(state: QueueState, command: EndFilling, now: Moment) -> Iterator[Event]:
    """What opens the target, in order; the caller installs each as it comes. Nothing: it is."""
    move = _filling(state, command.move)
    if move.phase is Phase.FILLED:
        return
    if move.jobs != command.jobs:
        raise MoveUnverified(f"{command.jobs:,} jobs were compared, {move.jobs:,} adopted")
    settings = command.settings
    if settings != state.settings and state.settings == DEFAULT_SETTINGS:
        yield Configured(now.position, now.at, SYSTEM_TENANT, settings)
    for tenant, queues in command.paused.items():
        for queue in queues:
            if queue not in state.tenancy(tenant).paused:
                yield Paused(now.position, now.at, tenant, queue)
    yield FillingEnded(
        now.position, now.at, SYSTEM_TENANT, command.move, command.jobs, command.digest,
        command.fences, command.runs, command.runs_aborted, command.queries,
    )  # fmt: skip


def abort_filling(state: QueueState, command: AbortFilling, now: Moment) -> FillingAborted | None:
    """None: it was aborted before. One that has not begun is forbidden to."""
    known, move = known_move(state, command.move), state.move
    if known is not None and known.phase is Phase.ABORTED:
        return None
    if known is not None and (known.phase is not Phase.FILLING or known.jobs):
        raise MoveBegun(known.jobs)
    if known is None and move is not None:
        raise move.refusal()
    return FillingAborted(now.position, now.at, SYSTEM_TENANT, command.move, command.source)


def find_conflicts(state: QueueState, command: FindConflicts, at: float) -> list[str]:
    return [
        conflict
        for newcomer in command.newcomers
        for conflict in _conflicts(state, command.tenant, newcomer, at)
    ]


def _filling(state: QueueState, id: str) -> Move:
    """The filling that this move is, also if it is over; or why there is none."""
    move = state.move
    if move is not None and (move.id, move.phase) != (id, Phase.FILLING):
        raise move.refusal()
    known = known_move(state, id)
    if known is None:
        raise MoveUnknown(id)
    if known.phase is Phase.ABORTED:
        raise MoveAborted(known.peer)
    return known


def _conflicts(state: QueueState, tenant: str, new: Newcomer, at: float) -> Iterator[str]:
    job = state.find(tenant, new.id, at)
    move = state.move
    adopted_since = None if move is None else move.position
    if job is not None and adopted_since is not None and job.life > adopted_since:
        return
    if job is not None or state.unadmitted(tenant, new.id) is not None:
        word = "pending" if job is None else job.state.value
        yield f"job {new.id!r} of {tenant!r}, which is {word} there"
    if new.key is not None:
        hold = state.holder(tenant, (new.queue, new.type, new.key), at)
        if hold is not None:
            yield _key_in_the_way(tenant, new.key, hold.id)


def _key_in_the_way(tenant: str, key: str, holder: str) -> str:
    return f"key {key!r} of {tenant!r}, held by {holder!r} there"


def known_move(state: QueueState, id: str) -> Move | None:
    return next((move for move in state.moves if move.id == id), None)
