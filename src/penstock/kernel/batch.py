"""Commands decided one after the other, as of one moment, into the events of one commit.

With its first command a batch lets dead leases go, then takes its commands in order, each seeing
what those before it did. Without any it records nothing: whoever only looks must not need the right
to write, nor room for it. An item that is refused answers with its error and changes nothing; the
others go on.
Where a command needs rows of an import that are not at hand, `NeedsChunk` is raised: the whole
batch has to be taken back, and decided again when they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar, assert_never

import msgspec

from penstock.errors import PenstockError
from penstock.kernel import decide, importing, moving
from penstock.kernel.commands import (
    AbortFilling,
    AbortImport,
    Ack,
    Adopt,
    AdvanceImport,
    AnyCommand,
    Archive,
    Beat,
    BeginFilling,
    Cancel,
    CarryDepartures,
    CarryKeys,
    Claim,
    Configure,
    DropConsumer,
    EndFilling,
    Enqueue,
    Expire,
    Failure,
    FindConflicts,
    Heartbeat,
    ImportCommand,
    ImportProgress,
    ImportReceipt,
    MoveCommand,
    MoveConsumer,
    MoveQueue,
    Nack,
    NoteCheckpoint,
    Outcome,
    Pause,
    PublishImport,
    Receipt,
    Release,
    ReopenQueue,
    Replay,
    Resume,
    Return,
    StageImport,
    Submission,
    Success,
    Sweep,
    Unarchive,
    Verdict,
)
from penstock.kernel.decide import Moment
from penstock.kernel.events import (
    SYSTEM_TENANT,
    Checkpointed,
    Configured,
    ConsumerDropped,
    ConsumerMoved,
    Event,
    FillingBegun,
    Paused,
    QueueMoved,
    Resumed,
    Swept,
    position_of,
)
from penstock.kernel.job import DEFAULT_CODEC, Job, State
from penstock.kernel.manifest import Chunks, nothing_at_hand
from penstock.kernel.moves import Move
from penstock.kernel.segments import Segment
from penstock.kernel.settings import Settings
from penstock.kernel.state import QueueState

Item = TypeVar("Item")
Result = TypeVar("Result")

ADMITTED_PER_COMMIT_MAX: Final = 200_000
"""Claims stop short of admitting more: a commit has to stay of a size that can be read."""


class Batch:
    def __init__(
        self,
        state: QueueState,
        at: float,
        commit: int,
        luck: Callable[[], float],
        chunks: Chunks = nothing_at_hand,
        *,
        index: int = 0,
    ) -> None:
        """`index` is that of its first event in the commit."""
        self.events: list[Event] = []
        self._state = state
        self._now = Moment(at, position_of(commit, index), luck)
        self._chunks = chunks
        self._admitted = 0
        self._expired: int | None = None
        """How many dead leases it has let go; None as long as it had no command."""
        state.pending.advance(at)

    def run(self, command: AnyCommand) -> Any:
        """Decides the command, installs what follows, and answers it."""
        if self._expired is None:
            self._expired = self._expire()
        if self._state.moves:
            moving.require_open(self._state, command)
        match command:
            case Enqueue():
                return self._each(command.jobs, self._enqueue, command.tenant)
            case Claim():
                return self._claim(command)
            case Ack():
                return self._each(command.items, self._ack, command.tenant)
            case Heartbeat():
                return self._each(command.items, self._heartbeat, command.tenant)
            case Nack():
                return self._each(command.items, self._nack, command.tenant)
            case Release():
                return self._each(command.items, self._release, command.tenant)
            case Cancel():
                return self._cancel_all(command)
            case Replay():
                return self._each(command.ids, self._replay, command.tenant)
            case Archive():
                return self._each(command.ids, self._archive, command.tenant)
            case Unarchive():
                return self._each(command.ids, self._unarchive, command.tenant)
            case Expire():
                return self._expired
            case Configure():
                return self._configure(command)
            case Pause() | Resume():
                return self._pause(command)
            case NoteCheckpoint() | Sweep() | MoveConsumer() | DropConsumer():
                return self._housekeep(command)
            case PublishImport() | StageImport() | AdvanceImport() | AbortImport():
                return self._import(command)
            case FindConflicts():
                return moving.find_conflicts(self._state, command, self._now.at)
            case _:
                return self._move(command)

    def _emit(self, event: Event) -> None:
        self._state.apply(event)
        self.events.append(event)
        self._now.position += 1

    def _each(
        self, items: Iterable[Item], do: Callable[[str, Item], Result], tenant: str
    ) -> list[Outcome[Result]]:
        outcomes: list[Outcome[Result]] = []
        for item in items:
            try:
                outcomes.append(do(tenant, item))
            except PenstockError as error:
                outcomes.append(error)
        return outcomes

    def _expire(self) -> int:
        dead = decide.dead_leases(self._state, self._now.at)
        for job in dead:
            self._emit(decide.expire(job, self._now))
        return len(dead)

    def _enqueue(self, tenant: str, new: Submission) -> Receipt:
        event = decide.enqueue(self._state, tenant, new, self._now)
        if isinstance(event, Receipt):
            return event
        self._emit(event)
        return Receipt(
            event.id, "queued", State.PENDING, None, DEFAULT_CODEC, None, event.life, event.position
        )

    def _claim(self, command: Claim) -> list[Job]:
        again = self._state.leases.of_claim(command.tenant, command.operation)
        if again:
            return again
        jobs = self._state.tenancy(command.tenant).jobs
        ids: list[str] = []
        while len(ids) < command.count:
            events, head = decide.claim(self._state, command, command.count - len(ids), self._now)
            for event in events:
                self._emit(event)
                ids.append(event.id)
            if head is None or self._admitted >= ADMITTED_PER_COMMIT_MAX:
                break
            try:
                self._admit(head.segment)
            except PenstockError:
                # Its rows can't be read. What comes before them in the order is given out all the
                # same; whoever has nothing to be given is told why.
                if not ids:
                    raise
                break
        return [jobs[id] for id in ids]

    def _admit(self, segment: Segment) -> None:
        """Lets the next chunk of a segment in."""
        place = segment.place(segment.chunk)
        rows = self._chunks(place)
        for event in importing.admit(self._state, segment, place, rows, self._now):
            self._emit(event)
            self._admitted += 1

    def _ack(self, tenant: str, success: Success) -> None:
        event = decide.ack(self._state, tenant, success, self._now)
        if event is not None:
            self._emit(event)

    def _heartbeat(self, tenant: str, beat: Beat) -> float:
        event = decide.heartbeat(self._state, tenant, beat, self._now)
        self._emit(event)
        return event.lease_until

    def _nack(self, tenant: str, failure: Failure) -> Verdict:
        event = decide.nack(self._state, tenant, failure, self._now)
        if event is not None:
            self._emit(event)
        job = self._state.tenancy(tenant).jobs[failure.id]
        return Verdict(job.state, job.run_at)

    def _release(self, tenant: str, item: Return) -> None:
        event = decide.release(self._state, tenant, item, self._now)
        if event is not None:
            self._emit(event)

    def _cancel_all(self, command: Cancel) -> list[str]:
        tenant = command.tenant
        waiting = [self._state.unadmitted(tenant, id) for id in command.ids]
        # All of them first: should one not be readable, nothing has happened to the others.
        chunks = [self._chunks(one.place) for one in waiting if one is not None]
        for one, rows in zip(filter(None, waiting), chunks, strict=True):
            place = msgspec.structs.replace(one.place, first=one.row)
            row = rows[one.row - one.place.first]
            for event in importing.admit(self._state, one.segment, place, [row], self._now):
                self._emit(event)
        return [self._cancel(tenant, id) for id in command.ids]

    def _cancel(self, tenant: str, id: str) -> str:
        event = decide.cancel(self._state, tenant, id, self._now)
        if isinstance(event, str):
            return event
        self._emit(event)
        return State.CANCELLED.value

    def _replay(self, tenant: str, id: str) -> State:
        event = decide.replay(self._state, tenant, id, self._now)
        if isinstance(event, State):
            return event
        self._emit(event)
        return State.PENDING

    def _archive(self, tenant: str, id: str) -> None:
        event = decide.archive(self._state, tenant, id, self._now)
        if event is not None:
            self._emit(event)

    def _unarchive(self, tenant: str, id: str) -> None:
        event = decide.unarchive(self._state, tenant, id, self._now)
        if event is not None:
            self._emit(event)

    def _pause(self, command: Pause | Resume) -> None:
        is_paused = command.queue in self._state.tenancy(command.tenant).paused
        if isinstance(command, Pause) != is_paused:
            kind = Resumed if is_paused else Paused
            self._emit(kind(self._now.position, self._now.at, command.tenant, command.queue))

    def _configure(self, command: Configure) -> Settings:
        current = self._state.settings
        changed = msgspec.structs.replace(current, **command.changes)
        if changed != current:
            self._emit(Configured(self._now.position, self._now.at, SYSTEM_TENANT, changed))
        return changed

    def note_time(self) -> None:
        """Says nothing but when: for a commit after which time goes on from another clock."""
        if self._state.move is None:
            now, before = self._now, self._state.swept_before
            self._emit(Swept(now.position, now.at, SYSTEM_TENANT, before))

    def _housekeep(self, command: NoteCheckpoint | Sweep | MoveConsumer | DropConsumer) -> None:
        position, at, state = self._now.position, self._now.at, self._state
        match command:
            case NoteCheckpoint(commit=commit) if commit > state.checkpoint_commit:
                size_bytes = command.size_bytes
                self._emit(Checkpointed(position, at, SYSTEM_TENANT, commit, size_bytes))
            case Sweep() if command.before > state.swept_before:
                self._emit(Swept(position, at, SYSTEM_TENANT, command.before))
            case MoveConsumer():
                reached, _ = state.consumers.get(command.consumer, (-1, 0.0))
                # Never back: what a reader has let go may be vacuumed already.
                reached = max(reached, command.reached)
                self._emit(ConsumerMoved(position, at, SYSTEM_TENANT, command.consumer, reached))
            case DropConsumer() if command.consumer in state.consumers:
                self._emit(ConsumerDropped(position, at, SYSTEM_TENANT, command.consumer))
            case _:
                pass

    def _import(self, command: ImportCommand) -> ImportReceipt | ImportProgress | int:
        match command:
            case PublishImport():
                return self._publish(command)
            case StageImport():
                staged = importing.stage(self._state, command, self._now)
                if isinstance(staged, ImportProgress):
                    return staged
                self._emit(staged)
                if staged.rows:
                    return ImportProgress(command.run, 0, staged.rows)
                return self._advance(AdvanceImport(command.tenant, command.run, 0))
            case AdvanceImport():
                return self._advance(command)
            case AbortImport():
                staged_run = self._state.imports.staged.get(command.run)
                aborted = importing.abort(self._state, command, self._now)
                if aborted is not None:
                    self._emit(aborted)
                return 0 if staged_run is None else staged_run.reached
            case _:
                assert_never(command)

    def _move(self, command: MoveCommand) -> Any:
        state, now = self._state, self._now
        match command:
            case MoveQueue():
                return self._recorded(moving.move_queue(state, command, now), command.move)
            case BeginFilling():
                return self._recorded(moving.begin_filling(state, command, now), command.move)
            case Adopt():
                return self._each(command.jobs, partial(self._adopt, command), command.tenant)
            case CarryKeys():
                decided = (moving.carry_key(state, command, key, now) for key in command.keys)
                return sum(map(self._emit_any, decided))
            case CarryDepartures():
                left = command.departed
                carried = (moving.carry_departure(state, command, id, now) for id in left)
                return sum(map(self._emit_any, carried))
            case EndFilling():
                for event in moving.end_filling(state, command, now):
                    self._emit(event)
                return moving.known_move(state, command.move)
            case AbortFilling():
                self._emit_any(moving.abort_filling(state, command, now))
            case ReopenQueue():
                self._emit_any(moving.reopen_queue(state, command, now))
            case _:
                assert_never(command)
        return None

    def _recorded(self, event: QueueMoved | FillingBegun | Move, id: str) -> Move:
        if isinstance(event, Move):
            return event
        self._emit(event)
        move = moving.known_move(self._state, id)
        assert move is not None
        return move

    def _adopt(self, command: Adopt, tenant: str, job: Job) -> bool:
        return self._emit_any(moving.adopt(self._state, command, job, self._now))

    def _emit_any(self, event: Event | None) -> bool:
        if event is not None:
            self._emit(event)
        return event is not None

    def _publish(self, command: PublishImport) -> ImportReceipt:
        events = importing.publish(self._state, command, self._now)
        if isinstance(events, ImportReceipt):
            return events
        for event in events:
            self._emit(event)
        return ImportReceipt(command.run, sum(event.rows for event in events), "published")

    def _advance(self, command: AdvanceImport) -> ImportProgress:
        step = importing.advance(self._state, command, self._chunks)
        if isinstance(step, ImportProgress):
            return step
        jobs, reached = step
        rows = self._state.imports.staged[command.run].rows
        for tenant, new in jobs:
            self._enqueue(tenant, new)
        self._emit(importing.advanced(command.run, reached, self._now))
        return ImportProgress(command.run, reached, rows)
