"""One command on one job, decided by the kernel on a state that holds nothing else.

That is, but for the job that holds the key it wants. A decision says what the answer is, what
happened to the job and whether that takes a key; nothing is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeGuard

from msgspec import Struct

from penstock.engines.records.charters import charter_of, prepared
from penstock.engines.records.tasks.positions import Positions
from penstock.engines.records.tasks.stories import last_position, stamp_in
from penstock.engines.requests import Work, decided
from penstock.kernel.batch import Batch
from penstock.kernel.events import (
    EVENTS_PER_COMMIT,
    Adopted,
    Enqueued,
    Event,
    JobEvent,
    Replayed,
    commit_of,
)
from penstock.kernel.job import Job
from penstock.kernel.stamps import Stamp, next_stamp
from penstock.kernel.state import QueueState
from penstock.kernel.tenancy import Hold, Scope
from penstock.wire.record import Charter
from penstock.wire.task import Opening, Task

ASKED_SECONDS_MAX: Final = 60.0
"""A command is decided as of when it came, but not if it has been slept over since."""


class Holding(Struct, frozen=True):
    """A key that is asked for: who holds it, and that one's job where it is another's."""

    tenant: str
    scope: Scope
    hold: Hold | None
    job: Job | None


class Decision(Struct, frozen=True):
    answer: Any
    events: Sequence[JobEvent]
    job: Job | None
    """As it is after them."""
    left: Sequence[Job]
    """Jobs that left to make room for it."""
    opening: Opening | None
    """The one of the events that takes a key."""
    stamp: Stamp
    """The job's time, as of which it was decided."""


class Decider:
    def __init__(self, positions: Positions, luck: Callable[[], float]) -> None:
        self._positions = positions
        self._luck = luck

    def on_task(
        self, work: Work, task: Task, holdings: Sequence[Holding], charter: Charter, now: float
    ) -> Decision:
        """`now` is this process's; a job's own time never goes back, and goes on."""
        stamp = next_stamp(stamp_in(task), now)
        state = _state(task, holdings, charter)
        answer, events = self._run(work, state, stamp.at, _above(task, charter))
        changes = state.changed()
        return Decision(
            answer,
            [event for event in events if isinstance(event, JobEvent)],
            state.tenancy(task.tenant).jobs.get(task.id),
            changes.left,
            next((event for event in events if takes_key(event, task.job)), None),
            stamp,
        )

    def beside(
        self, work: Work, task: Task, holdings: Sequence[Holding], charter: Charter, now: float
    ) -> tuple[Any, list[Event]]:
        """About keys, beside what is in a task, which stays as it is."""
        state = _state(task, holdings, charter)
        return self._run(work, state, round(now, 6), _above(task, charter))

    def on_charter(
        self, work: Work, charter: Charter, above: int, now: float
    ) -> tuple[Any, list[Event], Charter]:
        state = prepared(charter)
        answer, events = self._run(work, state, round(now, 6), above)
        return answer, events, charter_of(state)

    def _run(self, work: Work, state: QueueState, at: float, above: int) -> tuple[Any, list[Event]]:
        position = self._positions.next(at, above)
        state.begin()
        commit, index = commit_of(position), position % EVENTS_PER_COMMIT
        batch = Batch(state, at, commit, self._luck, index=index)
        return decided(batch, state, work, at), batch.events


def takes_key(event: Event, job: Job | None) -> TypeGuard[Opening]:
    """Whether the event makes the job one that holds its key."""
    if isinstance(event, Adopted):
        return event.key is not None and event.ended_at is None
    if isinstance(event, Enqueued):
        return event.key is not None
    return isinstance(event, Replayed) and job is not None and job.key is not None


def _state(task: Task, holdings: Sequence[Holding], charter: Charter) -> QueueState:
    state = prepared(charter)
    if task.job is not None:
        state.adopt(task.job)
    elif task.departed is not None:
        state.departures.remember(task.tenant, task.id, task.departed)
    for held in holdings:
        if held.hold is not None:
            state.adopt_hold(held.tenant, held.scope, held.hold)
        if held.job is not None:
            state.adopt(held.job)
    return state


def _above(task: Task, charter: Charter) -> int:
    """What comes since a move began stands above it, whatever the clocks say."""
    return max([last_position(task), *(move.position for move in charter.moves)])
