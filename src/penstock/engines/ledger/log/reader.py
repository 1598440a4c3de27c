"""Reading the log: following it, looking up one commit, finding a job's history."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from itertools import chain
from typing import Final

from penstock.engines.bad_reads import again_if_bad
from penstock.engines.histories import history_of
from penstock.engines.ledger.log.floor import read_floor
from penstock.engines.ledger.names import log_key
from penstock.errors import Gap, ObjectNotFound
from penstock.kernel.events import Event, JobEvent, commit_of, position_of
from penstock.kernel.job import Job
from penstock.kernel.transitions import TRAIL_POSITIONS_MAX
from penstock.ports.store import ObjectStore
from penstock.runtime.services import Services
from penstock.wire.commit import Commit, decode_commit

PARALLEL_READS: Final = 32
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
        self._recent_events += len(events)
        while self._recent_events > REMEMBERED_EVENTS_MAX and len(self._recent) > 1:
            self._recent_events -= len(self._recent.popitem(last=False)[1])

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
        remembered = self._recent.get(commit)
        if remembered is not None:
            return remembered
        try:
            events: Sequence[Event] = (await self.commit(commit)).events
        except ObjectNotFound:
            events = ()
        # Read afterwards: in a vacated slot there may be what a late writer left behind.
        floor = await read_floor(self._store)
        if commit < floor or not events:
            raise Gap(position_of(commit, 0), floor)
        return events

    async def history(self, job: Job | None, tenant: str, id: str, head: int) -> list[JobEvent]:
        """By the job's trail if it is known and whole, else by scanning what is left of the log."""
        if job is not None and len(job.trail) < TRAIL_POSITIONS_MAX:
            commits = sorted({commit_of(position) for position in (job.life, *job.trail)})
            return await self._history_in(commits, tenant, id)
        commits = list(range(await read_floor(self._store), head + 1))
        return await self._history_in(commits, tenant, id)

    async def _history_in(self, commits: list[int], tenant: str, id: str) -> list[JobEvent]:
        found: list[JobEvent] = []
        for start in range(0, len(commits), PARALLEL_READS):
            window = commits[start : start + PARALLEL_READS]
            events = await asyncio.gather(*(self._events_or_none(commit) for commit in window))
            found = history_of(chain(found, *events), tenant, id)
        return found

    async def _events_or_none(self, commit: int) -> Sequence[Event]:
        try:
            return await self.events(commit)
        except Gap:
            return ()
