"""Candidates without the index: the tasks themselves, listed and read.

For those who do not trust the index to be whole (`hybrid`: it is scanned beside, now and then, and
whenever the index has nothing), or want to do without it (`scan`). A task that has ended is read
once and then known by its time and size, until somebody opens it again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from math import inf
from typing import Final

from penstock.engines.records.tasks.documents import in_parallel
from penstock.engines.records.tasks.index import old_entry
from penstock.engines.records.tasks.looking import ENDED_KNOWN_MAX, Stamp, stamp_of
from penstock.engines.records.tasks.names import INDEX_MODES, TASKS, Ready
from penstock.engines.records.tasks.turns import Turns
from penstock.errors import Corrupt
from penstock.ports.store import Entry, ObjectStore
from penstock.runtime.services import Services
from penstock.wire.task import Task

logger = logging.getLogger(__name__)

SCAN_SECONDS: Final = 60.0
"""How often a hybrid scans while the index has enough for it."""
IDLE_SCAN_SECONDS: Final = 10.0
SCAN_TASKS: Final = 200
"""How many tasks of a shard are looked at with one scan; the next one goes on from there."""


class Scanner:
    def __init__(
        self, store: ObjectStore, turns: Turns, services: Services, mode: str = INDEX_MODES[0]
    ) -> None:
        self.mode = mode
        self._store = store
        self._turns = turns
        self._services = services
        self._scanned_at = -inf
        self._cursors: dict[str, str] = {}
        self._ended: dict[str, Stamp] = {}

    def is_due(self, *, is_idle: bool) -> bool:
        if self.mode != "hybrid":
            return self.mode == "scan"
        every_seconds = IDLE_SCAN_SECONDS if is_idle else SCAN_SECONDS
        return self._services.clock.elapsed() - self._scanned_at >= every_seconds

    async def entries(self, shards: Sequence[str]) -> tuple[list[Ready], bool]:
        """The entries that pending jobs of the next tasks should have; whether that was all."""
        self._scanned_at = self._services.clock.elapsed()
        found: list[Entry] = []
        for shard in shards:
            found += await self._next(shard)
        tasks = await in_parallel(self._task, found)
        entries = [old_entry(task) for task in tasks if task is not None]
        is_all = not any(shard in self._cursors for shard in shards)
        return [entry for entry in entries if isinstance(entry, Ready)], is_all

    async def _next(self, shard: str) -> list[Entry]:
        found: list[Entry] = []
        async for entry in self._store.list(f"{TASKS}{shard}/", self._cursors.get(shard, "")):
            if self._ended.get(entry.key) != stamp_of(entry):
                found.append(entry)
            if len(found) == SCAN_TASKS:
                self._cursors[shard] = entry.key
                return found
        self._cursors.pop(shard, None)
        return found

    async def _task(self, entry: Entry) -> Task | None:
        try:
            kept = await self._turns.tasks.read(entry.key)
            if kept is not None:
                kept = await self._turns.settled(entry.key, kept)
        except Corrupt as error:
            logger.warning("a job can't be looked at: %s", error)
            return None
        task = None if kept is None else kept.document
        job = None if task is None else task.job
        is_old = entry.modified_at < self._services.clock.now() - IDLE_SCAN_SECONDS
        if is_old and (job is None or job.is_terminal) and len(self._ended) < ENDED_KNOWN_MAX:
            self._ended[entry.key] = stamp_of(entry)
        return task
