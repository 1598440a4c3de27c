"""The sweeper: makes the indexes what the tasks say, and settles what somebody left half done.

Nothing that works needs it. It is for what somebody has deleted or copied by hand, for a put of
an entry that outlived its process, and for openings whose writers died.

It lists everything and reads what has changed (`known`). Of the rest it knows what entries they
should have: a task whose entries are other ones is read again, and judged by that.
"""

from __future__ import annotations

from typing import Final

from penstock.engines.calibration import CommitClock
from penstock.engines.records.tasks.documents import Kept, in_parallel
from penstock.engines.records.tasks.index import Index, is_stale, old_entry
from penstock.engines.records.tasks.known import Known
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
from penstock.kernel.job import State
from penstock.kernel.stamps import SET_BACK_SECONDS
from penstock.ports.backend import IndexReport
from penstock.ports.store import ObjectStore
from penstock.wire.seen import Seen
from penstock.wire.task import Task

ENTRY_SECONDS: Final = 600.0
"""How old an entry has to be, by the store's clock, before the absence of its task is believed."""
OPENING_SECONDS: Final = 60.0
"""How long whoever opens a job by its key may take to settle it."""

Entries = list[tuple[Ready | Leased, float]]
"""Those of one task, and when each was put."""


class Sweeper:
    def __init__(
        self, store: ObjectStore, index: Index, turns: Turns, known: Known, clock: CommitClock
    ) -> None:
        self._store = store
        self._index = index
        self._turns = turns
        self._known = known
        self._clock = clock
        self._added = self._removed = self._settled = 0

    async def run(self) -> IndexReport:
        self._added = self._removed = self._settled = 0
        # Before the tasks: of what changes meanwhile, an entry may be put again, which is no harm.
        filed = await self._filed()
        tasks = 0
        async for entry, seen, kept in self._known.look(only_looks=False):
            tasks += 1
            entries = filed.pop(name_in(entry.key), [])
            found = kept
            if found is None and not self._is_right(seen, entries):
                found = await self._read(entry.key)
            if found is not None:
                await self._repair(entry.key, found, entries)
            await self._turns.ahead.file_anew(one for one, _ in entries)
        await in_parallel(lambda name: self._judge_alone(name, filed[name]), filed)
        await self._known.summarise()
        return IndexReport(tasks, self._added, self._removed, self._settled)

    def _is_right(self, seen: Seen, entries: Entries) -> bool:
        """Whether a task that has not changed has the entries that it should, and no other."""
        if (seen.last_at if seen.stamp is None else seen.stamp.clock) > (
            self._clock.now() + SET_BACK_SECONDS
        ):
            # Its time stands still until somebody has noted the clock.
            return False
        if seen.state is not State.PENDING and seen.state is not State.RUNNING:
            return not entries
        return bool(entries) and all(
            isinstance(entry, Ready) == (seen.state is State.PENDING)
            and entry.position == seen.stretch
            for entry, _ in entries
        )

    async def _read(self, key: str) -> Kept[Task] | None:
        try:
            kept = await self._turns.tasks.read(key)
        except Corrupt:
            return None
        return None if kept is None else await self._turns.settled(key, kept)

    async def _filed(self) -> dict[str, Entries]:
        filed: dict[str, Entries] = {}
        for index, parse in ((READY, ready_in), (LEASES, leased_in)):
            async for listed in self._store.list(index):
                try:
                    entry = parse(listed.key)
                except ValueError:
                    # Not one of ours.
                    continue
                filed.setdefault(entry.name, []).append((entry, listed.modified_at))
        return filed

    async def _repair(self, key: str, kept: Kept[Task], filed: Entries) -> None:
        task = kept.document
        if task.opening is not None and task.opening.at < self._clock.now() - OPENING_SECONDS:
            # Were it true, it would have been settled when it was read.
            await self._turns.void(key, kept)
            self._settled += 1
        await self._turns.ahead.catch_up(key, kept)
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

    async def _judge_alone(self, name: str, filed: Entries) -> None:
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
