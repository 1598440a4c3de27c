"""Vacuum: lets go of tasks, events and side objects that have outlived their retention.

- Completed jobs beyond `finished_jobs_max` leave, oldest first; their events stay.
- A task whose jobs have all left, and whose events are older than the retention and were read by
  every registered reader, goes; if it was put late, then only once all readers have moved since. If
  penstock made its id, nobody will use that again, and the object is deleted, after it was counted:
  the charter first says which ones, so that a crash in between neither counts nor loses them
  twice. If somebody chose the id, a new job may come into the same object at any moment, and no
  store can delete under a condition: such an object is replaced by one without events, which stays.
- Side objects that no task and no event names go, if they were named before a sweep that has
  forbidden their publication for long enough that every process knows (`_FORBIDDEN_SECONDS`).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from math import inf
from typing import Final

from msgspec.structs import replace

from penstock.engines.calibration import CommitClock
from penstock.engines.consumers import drop_silent
from penstock.engines.names import DATA
from penstock.engines.records.charters import prepared
from penstock.engines.records.tasks import stories
from penstock.engines.records.tasks.charter import FRESH_SECONDS, CharterStore
from penstock.engines.records.tasks.documents import Kept, in_parallel
from penstock.engines.records.tasks.looking import all_tasks
from penstock.engines.records.tasks.positions import position_at, time_of
from penstock.engines.records.tasks.turns import Turns
from penstock.kernel.commands import Sweep
from penstock.kernel.decide import named_at
from penstock.kernel.events import (
    SYSTEM_TENANT,
    Adopted,
    Completed,
    Enqueued,
    Event,
    Swept,
    commit_of,
)
from penstock.kernel.job import State
from penstock.ports.backend import VacuumReport
from penstock.ports.store import ObjectStore
from penstock.wire.task import CharterObject, Task

DELETED_AT_ONCE_MAX: Final = 1_000
_FORBIDDEN_SECONDS: Final = 12 * FRESH_SECONDS
_MADE_HERE: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
)

Found = tuple[str, Kept[Task]]
"""A task and its object's key."""


class Vacuum:
    def __init__(
        self, store: ObjectStore, turns: Turns, charter: CharterStore, clock: CommitClock
    ) -> None:
        self._store = store
        self._turns = turns
        self._charter = charter
        self._clock = clock
        self._named: set[str] = set()
        """Side objects that a task or an event names."""

    async def run(self) -> VacuumReport:
        self._charter.require_open()
        now = self._clock.now()
        await drop_silent(self._charter.current.consumers, now, self._charter.take)
        await self._finish()
        horizon = now - self._charter.current.settings.retention_seconds()
        reached = [position for position, _ in self._charter.current.consumers.values()]
        below = min([position_at(horizon), *reached])
        looked_at = min(map(time_of, reached), default=inf)
        safe_before = self._forbidden_before(now)
        gone = 0
        async for old in self._old(below, looked_at, now):
            gone += await self._let_go(old)
        data_objects = await self._sweep(safe_before)
        await self._charter.take(Sweep(SYSTEM_TENANT, horizon))
        return VacuumReport(
            floor=commit_of(self._charter.object.forgotten),
            log_objects=gone,
            data_objects=data_objects,
        )

    async def _old(
        self, below: int, looked_at: float, now: float
    ) -> AsyncIterator[Sequence[Found]]:
        """Tasks that can go, in portions; on the way, those that are too many leave."""
        state = prepared(self._charter.current)
        completed: list[tuple[float, int, Found]] = []
        portion: list[Found] = []
        async for entry, kept in all_tasks(self._store, self._turns):
            task, job = kept.document, kept.document.job
            if job is not None:
                state.adopt(job)
                if state.find(job.tenant, job.id, stories.time_in(task, now)) is not None:
                    self._named.update(_names(task))
                    if job.state is State.COMPLETED and job.archived_at is None:
                        assert job.ended_at is not None
                        completed.append((job.ended_at, job.life, (entry.key, kept)))
                    continue
            is_old = stories.last_position(task) < below and task.opening is None
            # It may stand below what the slowest reader has had, and be news to it all the same.
            is_news = stories.is_late(task, kept.modified_at) and kept.modified_at >= looked_at
            is_old = is_old and not is_news and kept.modified_at < now - FRESH_SECONDS
            if is_old and not _is_empty(task):
                portion.append((entry.key, kept))
            else:
                self._named.update(_names(task))
            if len(portion) == DELETED_AT_ONCE_MAX:
                yield portion
                portion = []
        if portion:
            yield portion
        await self._depart(completed)

    async def _depart(self, completed: list[tuple[float, int, Found]]) -> None:
        too_many = len(completed) - self._charter.current.settings.finished_jobs_max
        if too_many > 0:
            oldest = sorted(completed, key=lambda one: one[:2])[:too_many]
            await in_parallel(self._depart_one, [found for *_, found in oldest])

    async def _depart_one(self, found: Found) -> None:
        key, kept = found
        at = stories.time_in(kept.document, self._clock.now())
        after = stories.departed(kept.document, kept.modified_at, at)
        await self._turns.tasks.put(key, kept, after)

    async def _let_go(self, old: Sequence[Found]) -> int:
        """Deletes tasks, or empties those whose ids may come again; says how many."""
        deleted = [found for found in old if _is_made_here(found[1].document)]
        emptied = [found for found in old if not _is_made_here(found[1].document)]
        newest = max(stories.last_position(kept.document) for _, kept in old)

        def count(found: CharterObject) -> tuple[CharterObject, Sequence[Event]]:
            left = found.left
            for _, kept in deleted:
                left = _with_left(left, kept.document)
            forgotten = max(found.forgotten, newest)
            leaving = tuple(key for key, _ in deleted)
            return replace(found, left=left, leaving=leaving, forgotten=forgotten), ()

        await self._charter.change(count)
        await self._finish()
        await in_parallel(self._empty, emptied)
        return len(old)

    async def _empty(self, found: Found) -> None:
        key, kept = found
        await self._turns.tasks.put(key, kept, stories.emptied(kept.document))

    async def _finish(self) -> None:
        """Deletes what the charter says is leaving, by whomever it was put there."""
        leaving = self._charter.object.leaving
        if not leaving:
            return
        await in_parallel(self._store.delete, leaving)

        def clear(found: CharterObject) -> tuple[CharterObject, Sequence[Event]]:
            return (replace(found, leaving=()) if found.leaving == leaving else found), ()

        await self._charter.change(clear)

    def _forbidden_before(self, now: float) -> float:
        """Side objects named before this can't be published, as every process knows."""
        known = [
            event.before
            for event in self._charter.object.events
            if isinstance(event, Swept) and event.at < now - _FORBIDDEN_SECONDS
        ]
        return max(known, default=0.0)

    async def _sweep(self, forbidden_before: float) -> int:
        # Names have their writer's time, which may be this far ahead of the store's.
        before = forbidden_before - self._charter.current.settings.clock_skew_seconds
        gone = [
            entry.key
            async for entry in self._store.list(DATA)
            if entry.modified_at < before
            and entry.key not in self._named
            and named_at(entry.key) < forbidden_before
        ]
        await in_parallel(self._store.delete, gone)
        return len(gone)


def _names(task: Task) -> Iterator[str]:
    events: tuple[Event | None, ...] = (*task.events, task.opening)
    for event in events:
        if isinstance(event, Enqueued) and event.payload_key is not None:
            yield event.payload_key
        if isinstance(event, Completed | Adopted) and event.result_key is not None:
            yield event.result_key


def _is_made_here(task: Task) -> bool:
    return _MADE_HERE.fullmatch(task.id) is not None


def _is_empty(task: Task) -> bool:
    """Whether there is nothing left to take from it."""
    return task.job is None and not task.events and not _is_made_here(task)


def _with_left(left: dict[str, stories.Left], task: Task) -> dict[str, stories.Left]:
    counts = stories.with_left(left.get(task.tenant, {}), [task.job] if task.job else [])
    for queue, states in task.left.items():
        for state, number in states.items():
            counts.setdefault(queue, {}).setdefault(state, 0)
            counts[queue][state] += number
    return {**left, task.tenant: counts}
