"""Reading the log: following it, looking up one commit, finding a job's history."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Sequence
from itertools import chain
from typing import Final

from penstock.engines.bad_reads import again_if_bad
from penstock.engines.histories import PARALLEL_READS, follow_trail, history_of, room_of
from penstock.engines.ledger.log.floor import read_floor
from penstock.engines.ledger.names import log_key
from penstock.errors import Gap, ObjectNotFound
from penstock.kernel.events import Event, JobEvent, commit_of, index_of, position_of
from penstock.kernel.job import Job
from penstock.ports.store import ObjectStore
from penstock.runtime.services import Services
from penstock.wire.commit import Commit, decode_commit, decode_some

REMEMBERED_EVENTS_MAX: Final = 20_000


class LogReader:
    def __init__(self, store: ObjectStore, services: Services) -> None:
        self._store = store
        self._services = services
        self._recent: OrderedDict[int, Sequence[Event]] = OrderedDict()
        self._recent_events = 0

    def remember(self, commit: int, events: Sequence[Event]) -> None:
        """Keeps the newest commits at hand for those who follow."""
        self._recent[commit] = events
        self._recent_events += room_of(events)
        while self._recent_events > REMEMBERED_EVENTS_MAX and len(self._recent) > 1:
            self._recent_events -= room_of(self._recent.popitem(last=False)[1])

    async def commit(self, commit: int) -> Commit:
        """One commit as it is stored; raises `ObjectNotFound` or, in the end, `Corrupt`."""
        key = log_key(commit)

        async def read() -> Commit:
            return decode_commit(key, (await self._store.get(key)).data)

        return await again_if_bad(read)

    async def ahead(self, commit: int, count: int) -> list[Commit]:
        """The next so many commits, read at once; fewer where the log ends."""
        found = await asyncio.gather(
            *(self.commit(number) for number in range(commit, commit + count)),
            return_exceptions=True,
        )
        commits: list[Commit] = []
        for item in found:
            if isinstance(item, ObjectNotFound):
                break
            if isinstance(item, BaseException):
                raise item
            commits.append(item)
        return commits

    async def events(self, commit: int) -> Sequence[Event]:
        if commit in self._recent:
            return self._recent[commit]
        events = await self._all(commit)
        # Read afterwards: in a vacated slot there may be what a late writer left behind.
        floor = await read_floor(self._store)
        if commit < floor or not events:
            raise Gap(position_of(commit, 0), floor)
        return events

    async def events_at(self, commit: int, positions: Collection[int]) -> Sequence[Event]:
        """Those at these positions; raises `Gap` where they were vacuumed."""
        events = await self._some(commit, positions)
        floor = await read_floor(self._store)
        if commit < floor or not events:
            raise Gap(position_of(commit, 0), floor)
        return events

    async def _some(self, commit: int, positions: Collection[int]) -> Sequence[Event]:
        """The same, without asking whether the slot was vacated: nothing, if it is empty."""
        remembered = self._recent.get(commit)
        if remembered is not None:
            return [remembered[index_of(position)] for position in positions]
        key = log_key(commit)

        async def read() -> list[Event]:
            return decode_some(key, (await self._store.get(key)).data, positions)

        try:
            return await again_if_bad(read)
        except ObjectNotFound:
            return ()

    async def history(
        self, job: Job | None, tenant: str, id: str, life: int | None, head: int
    ) -> list[JobEvent]:
        """By the job's trail if it is known, else by scanning what is left of the log."""
        if job is not None:
            found = await follow_trail((job.life, *job.trail), self._some)
        else:
            floor = await read_floor(self._store)
            # Nothing happened to a life before it began.
            start = floor if life is None else max(floor, commit_of(life))
            found = await self._scan(start, head, tenant, id, life)
        # Read afterwards: in a vacated slot there may be what a late writer left behind.
        first = position_of(await read_floor(self._store), 0)
        return [event for event in found if event.position >= first]

    async def _scan(
        self, first: int, last: int, tenant: str, id: str, life: int | None
    ) -> list[JobEvent]:
        found: list[JobEvent] = []
        for start in range(first, last + 1, PARALLEL_READS):
            window = range(start, min(start + PARALLEL_READS, last + 1))
            events = await asyncio.gather(*map(self._all, window))
            found = history_of(chain(found, *events), tenant, id, life)
        return found

    async def _all(self, commit: int) -> Sequence[Event]:
        remembered = self._recent.get(commit)
        if remembered is not None:
            return remembered
        try:
            return (await self.commit(commit)).events
        except ObjectNotFound:
            return ()
