"""Taking back dead leases, found by when the lease index says that they end at the earliest.

A heartbeat does not move a lease's entry: when its time has come and the lease lives on, whoever
looks files it anew under its true end.
"""

from __future__ import annotations

import logging
from math import inf
from typing import Final

from penstock.engines.calibration import CommitClock
from penstock.engines.records.tasks.charter import CharterStore
from penstock.engines.records.tasks.documents import Kept, in_parallel
from penstock.engines.records.tasks.index import Index, entry_of, is_stale
from penstock.engines.records.tasks.names import Leased, task_key
from penstock.engines.records.tasks.stories import (
    early_seconds,
    last_position,
    stamp_in,
    time_in,
)
from penstock.engines.records.tasks.turns import Turns
from penstock.errors import Corrupt
from penstock.kernel.commands import Expire
from penstock.kernel.job import State
from penstock.runtime.services import Services
from penstock.wire.task import Task

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 15.0
"""Claims look at the lease index this often, or when they know that a lease has ended."""


class Expiry:
    def __init__(
        self,
        index: Index,
        turns: Turns,
        clock: CommitClock,
        services: Services,
        charter: CharterStore,
    ) -> None:
        self._index = index
        self._turns = turns
        self._clock = clock
        self._services = services
        self._charter = charter
        self._looked_at = -inf
        self.next_end: float | None = None
        """When the next lease that is known of ends."""

    def note(self, lease_until: float) -> None:
        """A lease that this process was given, by its clock."""
        self.next_end = min(lease_until, self.next_end or inf)

    async def run_if_due(self) -> None:
        is_over = self.next_end is not None and self.next_end <= self._dead_by()
        if is_over or self._services.clock.elapsed() - self._looked_at > LOOK_SECONDS:
            await self.run()

    async def run(self) -> int:
        """Takes back every dead lease there is; answers how many."""
        self._looked_at = self._services.clock.elapsed()
        dead_by = self._dead_by()
        leases = await self._index.leases_until(dead_by)
        due = [entry for entry in leases if entry.until <= dead_by]
        self.next_end = min((entry.until for entry in leases[len(due) :]), default=None)
        if due:
            await self._charter.keep_fresh()
            self._charter.require_open()
        ended = await in_parallel(self._end, due)
        await self._turns.ahead.file_anew(leases[len(due) :])
        return sum(ended)

    def _dead_by(self) -> float:
        return self._clock.now() - self._charter.current.settings.clock_skew_seconds

    async def _end(self, entry: Leased) -> int:
        """Whether the lease was dead, as a number."""
        try:
            key = task_key(entry.name)
            kept = await self._turns.tasks.read(key)
            if kept is not None:
                kept = await self._turns.ahead.catch_up(key, kept)
            return 0 if kept is None else await self._judge(entry, kept)
        except Corrupt as error:
            logger.warning("a lease is left alone: %s", error)
            return 0

    async def _judge(self, entry: Leased, kept: Kept[Task]) -> int:
        task = kept.document
        if is_stale(entry, task):
            self._index.forget([entry])
            return 0
        job = task.job
        if job is None or job.state is not State.RUNNING or last_position(task) < entry.position:
            # It announces a claim that is still under way.
            return 0
        skew_seconds = self._charter.current.settings.clock_skew_seconds
        dead_by = time_in(task, self._clock.now()) - skew_seconds
        if job.lease_until is not None and job.lease_until > dead_by:
            early = early_seconds(job, stamp_in(task))
            self.note(job.lease_until - early)
            moved = entry_of(job, early)
            if moved is not None and moved.key != entry.key:
                await self._index.announce(job, early)
                self._index.forget([entry])
            return 0
        return int(await self._turns.take(task.tenant, task.id, Expire(task.tenant), kept))
