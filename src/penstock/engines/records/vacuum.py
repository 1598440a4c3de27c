"""Vacuum: deletes the events and side objects that have outlived the retention.

In this order, so that a crash between any two steps leaves at most garbage:

1. Commits that are older than the retention go, unless a registered consumer has yet to read
   them; the first commit is raised with the same write. In a full database that makes room for the
   rest.
2. A commit forbids the publication of side objects named before the retention; then those go that
   no job names, nor an event that is still there.
"""

from __future__ import annotations

from contextlib import suppress

from penstock.engines.calibration import CommitClock
from penstock.engines.consumers import Execute, drop_silent
from penstock.engines.names import DATA
from penstock.engines.records.turns import charter_in, first_needed
from penstock.errors import StoreFull
from penstock.kernel.commands import Expire, Sweep
from penstock.kernel.decide import named_at
from penstock.kernel.events import SYSTEM_TENANT
from penstock.ports.backend import VacuumReport
from penstock.ports.records import RecordStore
from penstock.wire.record import Charter


class Vacuum:
    def __init__(self, store: RecordStore, execute: Execute, clock: CommitClock) -> None:
        self._store = store
        self._execute = execute
        self._clock = clock

    async def run(self) -> VacuumReport:
        # A closed queue refuses the first of these. Where there is no room, both can wait.
        with suppress(StoreFull):
            await self._execute(Expire(SYSTEM_TENANT))
            await drop_silent((await self._charter()).consumers, self._clock.now(), self._execute)
        charter = await self._charter()
        unset = self._store.capabilities.log_retention_seconds
        horizon = self._clock.now() - charter.settings.retention_seconds(unset)
        below = first_needed(charter, await self._store.head())
        commits = await self._store.vacuum(horizon, below, horizon)
        data_objects = await self._sweep(horizon, charter.settings.clock_skew_seconds)
        return VacuumReport(
            floor=await self._store.first_commit(), log_objects=commits, data_objects=data_objects
        )

    async def _charter(self) -> Charter:
        """That of now."""
        return charter_in(await self._store.head())

    async def _sweep(self, horizon: float, skew_seconds: float) -> int:
        # Names have their writer's time, which may be this far ahead of the store's.
        written_before = horizon - skew_seconds
        side = self._store.side
        old = [entry.key async for entry in side.list(DATA) if entry.modified_at < written_before]
        if not old:
            return 0
        await self._execute(Sweep(SYSTEM_TENANT, horizon))
        sides = await self._store.sides()
        forbidden_before = (await self._charter()).swept_before
        gone = [
            key
            for key in old
            if not _is_needed(sides, key, horizon) and named_at(key) < forbidden_before
        ]
        for key in gone:
            await side.delete(key)
        return len(gone)


def _is_needed(sides: dict[str, float | None], key: str, horizon: float) -> bool:
    """By a job that is there, or by the events of one that left not long enough ago."""
    if key not in sides:
        return False
    released_at = sides[key]
    return released_at is None or released_at >= horizon
