"""The sweeper: makes the indexes what the tasks say, and settles what somebody left half done.

Nothing that works needs it. It is for what somebody has deleted or copied by hand, for a put of
an entry that outlived its process, and for openings whose writers died.
"""

from __future__ import annotations

from typing import Final

from penstock.engines.calibration import CommitClock
from penstock.engines.records.tasks.documents import Kept, in_parallel
from penstock.engines.records.tasks.index import Index, is_stale, old_entry
from penstock.engines.records.tasks.looking import ENDED_KNOWN_MAX, Stamp, all_tasks, stamp_of
from penstock.engines.records.tasks.names import (
    LEASES,
    READY,
    Leased,
    Ready,
    leased_in,
    name_in,
    ready_in,
    task_key,
)
from penstock.engines.records.tasks.turns import Turns
from penstock.errors import Corrupt
from penstock.ports.backend import IndexReport
from penstock.ports.store import Entry, ObjectStore
from penstock.wire.task import Task

ENTRY_SECONDS: Final = 600.0
"""How old an entry has to be, by the store's clock, before the absence of its task is believed."""
OPENING_SECONDS: Final = 60.0
"""How long whoever opens a job by its key may take to settle it."""

Filed = dict[str, list[tuple[Ready | Leased, float]]]
"""By task, its entries and when each was put."""


class Sweeper:
    def __init__(self, store: ObjectStore, index: Index, turns: Turns, clock: CommitClock) -> None:
        self._store = store
        self._index = index
        self._turns = turns
        self._clock = clock
        self._added = self._removed = self._settled = 0
        self._ended: dict[str, Stamp] = {}
        """Tasks that need not be read again while they are as they were."""

    async def run(self) -> IndexReport:
        self._added = self._removed = self._settled = 0
        # Before the tasks: of what changes meanwhile, an entry may be put again, which is no harm.
        filed = await self._filed()
        tasks = 0
        async for entry, kept in all_tasks(self._store, self._turns, known=self._ended):
            tasks += 1
            self._note(entry, kept.document)
            await self._repair(entry.key, kept, filed.pop(name_in(entry.key), []))
        await in_parallel(lambda name: self._judge_alone(name, filed[name]), filed)
        return IndexReport(tasks, self._added, self._removed, self._settled)

    def _note(self, entry: Entry, task: Task) -> None:
        is_over = task.opening is None and (task.job is None or task.job.is_terminal)
        if is_over and self._is_old(entry.modified_at) and len(self._ended) < ENDED_KNOWN_MAX:
            self._ended[entry.key] = stamp_of(entry)

    async def _filed(self) -> Filed:
        filed: Filed = {}
        for index, parse in ((READY, ready_in), (LEASES, leased_in)):
            async for listed in self._store.list(index):
                try:
                    entry = parse(listed.key)
                except ValueError:
                    # Not one of ours.
                    continue
                filed.setdefault(entry.name, []).append((entry, listed.modified_at))
        return filed

    async def _repair(
        self, key: str, kept: Kept[Task], filed: list[tuple[Ready | Leased, float]]
    ) -> None:
        task = kept.document
        if task.opening is not None and task.opening.at < self._clock.now() - OPENING_SECONDS:
            # Were it true, it would have been settled when it was read.
            await self._turns.void(key, kept)
            self._settled += 1
        await self._turns.ahead.catch_up(key, kept)
        await self._turns.ahead.file_anew(entry for entry, _ in filed)
        wanted = old_entry(task)
        self._remove(
            [
                entry
                for entry, put_at in filed
                if is_stale(entry, task)
                or (self._is_old(put_at) and not _stands_for(entry, wanted))
            ]
        )
        if wanted is not None and not any(_stands_for(entry, wanted) for entry, _ in filed):
            assert task.job is not None
            await self._index.announce(task.job, task.early_seconds)
            self._added += 1

    async def _judge_alone(self, name: str, filed: list[tuple[Ready | Leased, float]]) -> None:
        """Entries whose task was not among those read: it is new, or it is not there."""
        try:
            kept = await self._turns.tasks.read(task_key(name))
        except Corrupt:
            # It is there, and whoever repairs it will want its entries.
            return
        if kept is not None:
            self._remove([entry for entry, _ in filed if is_stale(entry, kept.document)])
            return
        self._remove([entry for entry, put_at in filed if self._is_old(put_at)])

    def _is_old(self, put_at: float) -> bool:
        """Whether what the entry announced would have come by now."""
        return put_at < self._clock.now() - ENTRY_SECONDS

    def _remove(self, entries: list[Ready | Leased]) -> None:
        self._index.forget(entries)
        self._removed += len(entries)


def _stands_for(entry: Ready | Leased, wanted: Ready | Leased | None) -> bool:
    """A lease's may have been filed anew under a later end."""
    return wanted is not None and type(entry) is type(wanted) and entry.position == wanted.position
