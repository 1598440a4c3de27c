"""Candidates without the index: the tasks themselves, listed and read.

For those who do not trust the index to be whole (`hybrid`: it is scanned beside, now and then, and
whenever the index has nothing), or want to do without it (`scan`). A task that was read is known by
its time and size until it changes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from math import inf
from typing import Final

from penstock.engines.records.tasks.documents import in_parallel
from penstock.engines.records.tasks.index import old_entry
from penstock.engines.records.tasks.known import KNOWN_MAX, SETTLED_SECONDS
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
        self._known: dict[str, tuple[float, int, Ready | None]] = {}
        """By task, when it was put, how large it is, and the entry that it should have."""

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
        entries = await in_parallel(self._entry, found)
        is_all = not any(shard in self._cursors for shard in shards)
        return [entry for entry in entries if entry is not None], is_all

    async def _next(self, shard: str) -> list[Entry]:
        found: list[Entry] = []
        async for entry in self._store.list(f"{TASKS}{shard}/", self._cursors.get(shard, "")):
            known = self._known.get(entry.key)
            if known is None or known != (entry.modified_at, entry.size_bytes, None):
                found.append(entry)
            if len(found) == SCAN_TASKS:
                self._cursors[shard] = entry.key
                return found
        self._cursors.pop(shard, None)
        return found

    async def _entry(self, listed: Entry) -> Ready | None:
        """The entry that the task should have, if it is pending."""
        known = self._known.get(listed.key)
        if known is not None and known[:2] == (listed.modified_at, listed.size_bytes):
            return known[2]
        listed_by = self._services.clock.now()
        task = await self._task(listed)
        if task is None:
            return None
        entry = old_entry(task)
        ready = entry if isinstance(entry, Ready) else None
        is_old = listed.modified_at < listed_by - SETTLED_SECONDS
        has_room = len(self._known) < KNOWN_MAX or listed.key in self._known
        if is_old and task.opening is None and has_room:
            self._known[listed.key] = (listed.modified_at, listed.size_bytes, ready)
        return ready

    async def _task(self, entry: Entry) -> Task | None:
        try:
            kept = await self._turns.tasks.read(entry.key)
            if kept is not None:
                kept = await self._turns.settled(entry.key, kept)
        except Corrupt as error:
            logger.warning("a job can't be looked at: %s", error)
            return None
        return None if kept is None else kept.document
