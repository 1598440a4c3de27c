"""Vacuum: lets go of tasks, events and side objects that have outlived their retention.

- Completed jobs beyond `finished_jobs_max` leave, oldest first; their events stay.
- A task whose jobs have all left, and whose events are older than the retention and were read by
  every registered reader, is replaced by one without events; if it was put late, then only once all
  readers have moved since. If somebody chose its id, then that may come again any day, and the
  small object stays. If penstock made the id, it is deleted (`deleting` says how, so that nobody
  loses anything who uses the id again all the same).
- Side objects that no task and no event names go, if they were named before a sweep that has
  forbidden their publication for long enough that every process knows (`_FORBIDDEN_SECONDS`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from math import inf
from typing import Final

from msgspec.structs import replace

from penstock.engines.calibration import CommitClock
from penstock.engines.consumers import drop_silent
from penstock.engines.names import DATA
from penstock.engines.records.charters import prepared
from penstock.engines.records.tasks import stories
from penstock.engines.records.tasks.charter import FRESH_SECONDS, CharterStore
from penstock.engines.records.tasks.deleting import Deleter, Found
from penstock.engines.records.tasks.documents import in_parallel
from penstock.engines.records.tasks.known import Known, seen_of, time_of_seen
from penstock.engines.records.tasks.positions import position_at, time_of
from penstock.engines.records.tasks.turns import Turns
from penstock.kernel.commands import Sweep
from penstock.kernel.decide import named_at
from penstock.kernel.departures import REMEMBERED_SECONDS
from penstock.kernel.events import (
    SYSTEM_TENANT,
    Event,
    Swept,
    commit_of,
)
from penstock.kernel.job import State
from penstock.kernel.retention import has_lapsed, lapses_at
from penstock.kernel.state import QueueState
from penstock.ports.backend import VacuumReport
from penstock.ports.store import Entry, ObjectStore
from penstock.runtime.services import Services
from penstock.wire.seen import Seen
from penstock.wire.task import CharterObject

DELETED_AT_ONCE_MAX: Final = 500
"""The charter names them while they are being deleted."""
_FORBIDDEN_SECONDS: Final = 12 * FRESH_SECONDS


class Vacuum:
    def __init__(
        self,
        store: ObjectStore,
        services: Services,
        turns: Turns,
        known: Known,
        charter: CharterStore,
        clock: CommitClock,
    ) -> None:
        self._store = store
        self._turns = turns
        self._known = known
        self._charter = charter
        self._deleter = Deleter(store, services, turns, charter)
        self._clock = clock
        self._named: set[str] = set()
        """Side objects that a task or an event names."""

    async def run(self) -> VacuumReport:
        self._charter.require_open()
        now = self._clock.now()
        await drop_silent(self._charter.current.consumers, now, self._charter.take)
        await self._deleter.finish()
        horizon = now - self._charter.current.settings.retention_seconds()
        reached = [position for position, _ in self._charter.current.consumers.values()]
        limits = _Limits(
            prepared(self._charter.current),
            below=min([position_at(horizon), *reached]),
            looked_at=min(map(time_of, reached), default=inf),
            now=now,
        )
        safe_before = self._forbidden_before(now)
        gone = 0
        async for keys in self._old(limits):
            gone += await self._let_go(await self._still_old(keys, limits))
        data_objects = await self._sweep(safe_before)
        await self._charter.take(Sweep(SYSTEM_TENANT, horizon))
        return VacuumReport(
            floor=commit_of(self._charter.object.forgotten),
            log_objects=gone,
            data_objects=data_objects,
        )

    async def _old(self, limits: _Limits) -> AsyncIterator[Sequence[str]]:
        """Tasks that can go, in portions; on the way, those that are too many leave."""
        completed: list[tuple[float, int, str]] = []
        portion: list[str] = []
        async for entry, seen, kept in self._known.look(only_looks=False):
            modified_at = entry.modified_at if kept is None else kept.modified_at
            has_opening = kept is not None and kept.document.opening is not None
            if not has_opening and limits.can_go(seen, modified_at):
                portion.append(entry.key)
            else:
                self._named.update(seen.names)
            is_completed = seen.state is State.COMPLETED and seen.archived_at is None
            if is_completed and not limits.has_left(seen):
                assert seen.ended_at is not None
                completed.append((seen.ended_at, seen.life, entry.key))
            if len(portion) == DELETED_AT_ONCE_MAX:
                yield portion
                portion = []
        if portion:
            yield portion
        await self._depart(completed)

    async def _still_old(self, keys: Sequence[str], limits: _Limits) -> list[Found]:
        """Those that can go as they are now, read for this."""

        async def read(key: str) -> Found | None:
            kept = await self._turns.tasks.read(key)
            if kept is None or kept.document.opening is not None:
                return None
            task = kept.document
            seen = seen_of(Entry(key, 0, kept.modified_at), task)
            if limits.can_go(seen, kept.modified_at):
                return key, kept
            # Somebody has used it since it was listed.
            self._named.update(seen.names)
            return None

        return [found for found in await in_parallel(read, keys) if found is not None]

    async def _depart(self, completed: list[tuple[float, int, str]]) -> None:
        too_many = len(completed) - self._charter.current.settings.finished_jobs_max
        if too_many > 0:
            await in_parallel(self._depart_one, [key for *_, key in sorted(completed)[:too_many]])

    async def _depart_one(self, key: str) -> None:
        kept = await self._turns.tasks.read(key)
        job = None if kept is None else kept.document.job
        if kept is None or job is None or job.state is not State.COMPLETED:
            return
        if kept.document.opening is None and job.archived_at is None:
            at = stories.time_in(kept.document, self._clock.now())
            after = stories.departed(kept.document, kept.modified_at, at)
            await self._turns.tasks.put(key, kept, after)

    async def _let_go(self, old: Sequence[Found]) -> int:
        """Empties tasks, and deletes those whose ids will not come again; says how many."""
        if not old:
            return 0
        newest = max(stories.last_position(kept.document) for _, kept in old)

        def forget(found: CharterObject) -> tuple[CharterObject, Sequence[Event]]:
            return replace(found, forgotten=max(found.forgotten, newest)), ()

        await self._charter.change(forget)
        emptied = [found for found in await in_parallel(self._empty, old) if found is not None]
        buried = [found for found in emptied if found[1].document.buried]
        if buried:
            await self._deleter.delete(buried)
        return len(emptied)

    async def _empty(self, found: Found) -> Found | None:
        """The same without its events; None if somebody has used it meanwhile."""
        key, kept = found
        if kept.document.buried:
            return found
        put = await self._turns.tasks.put(key, kept, stories.emptied(kept.document))
        return None if put is None else (key, put)

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


class _Limits:
    """What can go, as of the beginning of a vacuum."""

    def __init__(self, state: QueueState, *, below: int, looked_at: float, now: float) -> None:
        """`below` is where events are that every reader has had; `looked_at` when the slowest one
        was told anything last."""
        self._state = state
        self._below = below
        self._looked_at = looked_at
        self._now = now

    def has_left(self, seen: Seen) -> bool:
        """Whether it has no job any more that anybody could see."""
        if seen.state is None:
            return True
        as_of = self._state.as_of(time_of_seen(seen, self._now))
        return seen.ended_at is not None and has_lapsed(seen, self._state.settings, as_of)

    def _is_remembered(self, seen: Seen) -> bool:
        """Whether calls that began its last job are still told from new ones."""
        as_of = self._state.as_of(time_of_seen(seen, self._now))
        if seen.state is None:
            return seen.departed_until > as_of
        return lapses_at(seen, self._state.settings) + REMEMBERED_SECONDS > as_of

    def can_go(self, seen: Seen, modified_at: float) -> bool:
        if seen.is_buried:
            # By a vacuum that came no further.
            return True
        is_empty = seen.state is None and not seen.has_events and not seen.is_made
        if is_empty or not self.has_left(seen) or seen.last_position >= self._below:
            return False
        if self._is_remembered(seen):
            return False
        # It may stand below what the slowest reader has had, and be news to it all the same.
        is_late = modified_at - seen.last_at >= stories.LATE_SECONDS
        is_news = is_late and modified_at >= self._looked_at
        return not is_news and modified_at < self._now - FRESH_SECONDS
