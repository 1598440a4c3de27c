"""Commands decided one after the other, as of one moment, into the events of one commit.

A batch first lets dead leases go, then takes its commands in order, each seeing what those before
it did. An item that is refused answers with its error and changes nothing; the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, assert_never

import msgspec

from penstock.errors import PenstockError
from penstock.kernel import decide
from penstock.kernel.commands import (
    Ack,
    AnyCommand,
    Archive,
    Beat,
    Cancel,
    Claim,
    Configure,
    DropConsumer,
    Enqueue,
    Expire,
    Failure,
    Heartbeat,
    MoveConsumer,
    Nack,
    NoteCheckpoint,
    Outcome,
    Pause,
    Receipt,
    Release,
    Replay,
    Resume,
    Return,
    Submission,
    Success,
    Sweep,
    Unarchive,
)
from penstock.kernel.decide import Moment
from penstock.kernel.events import (
    SYSTEM_TENANT,
    Checkpointed,
    Configured,
    ConsumerDropped,
    ConsumerMoved,
    Event,
    Paused,
    Resumed,
    Swept,
    position_of,
)
from penstock.kernel.job import DEFAULT_CODEC, Job, State
from penstock.kernel.settings import Settings
from penstock.kernel.state import QueueState

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batch:
    def __init__(
        self, state: QueueState, at: float, commit: int, luck: Callable[[], float]
    ) -> None:
        self.events: list[Event] = []
        self._state = state
        self._now = Moment(at, position_of(commit, 0), luck)
        self._expired = 0
        state.advance(at)
        self._expire()

    def run(self, command: AnyCommand) -> Any:
        """Decides the command, installs what follows, and answers it."""
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
                return [self._cancel(command.tenant, id) for id in command.ids]
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
            case _:
                assert_never(command)

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

    def _expire(self) -> None:
        for job in decide.dead_leases(self._state, self._now.at):
            self._emit(decide.expire(job, self._now))
            self._expired += 1

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
        events = decide.claim(self._state, command, self._now)
        for event in events:
            self._emit(event)
        return [jobs[event.id] for event in events]

    def _ack(self, tenant: str, success: Success) -> None:
        event = decide.ack(self._state, tenant, success, self._now)
        if event is not None:
            self._emit(event)

    def _heartbeat(self, tenant: str, beat: Beat) -> float:
        event = decide.heartbeat(self._state, tenant, beat, self._now)
        self._emit(event)
        return event.lease_until

    def _nack(self, tenant: str, failure: Failure) -> State:
        event = decide.nack(self._state, tenant, failure, self._now)
        if isinstance(event, State):
            return event
        self._emit(event)
        return self._state.tenancy(tenant).jobs[failure.id].state

    def _release(self, tenant: str, item: Return) -> None:
        event = decide.release(self._state, tenant, item, self._now)
        if event is not None:
            self._emit(event)

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

    def _housekeep(self, command: NoteCheckpoint | Sweep | MoveConsumer | DropConsumer) -> None:
        position, at, state = self._now.position, self._now.at, self._state
        match command:
            case NoteCheckpoint() if command.commit > state.checkpoint_commit:
                self._emit(
                    Checkpointed(position, at, SYSTEM_TENANT, command.commit, command.size_bytes)
                )
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
