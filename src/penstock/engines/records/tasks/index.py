"""The two indexes: what is pending and when it is due, what is running and when its lease ends.

They are projections that may lag. An entry is put before the job changes, so that no job is ever
without, and deleted afterwards; whoever looks one up reads the job before believing it. An entry
stands for one stretch of a job (`names`): once the job is past the position that the entry names,
and not in that stretch, the entry is stale for ever and anybody may delete it. Before that it
announces what may yet come, and stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from penstock.engines.records.tasks.names import (
    LEASES,
    READY,
    SHARDS,
    Leased,
    Ready,
    claim_tag,
    lease_folder,
    leased_in,
    minute_in,
    minute_of,
    tags,
    task_name,
)
from penstock.engines.records.tasks.stories import last_position, stretch_of
from penstock.errors import PenstockError
from penstock.kernel.events import Adopted, Claimed
from penstock.kernel.job import Job, State
from penstock.ports.store import ObjectStore, Overwrite
from penstock.runtime.complaints import Complaints
from penstock.runtime.services import Services
from penstock.runtime.tasks import TaskSet
from penstock.wire.task import Task

logger = logging.getLogger(__name__)

E = TypeVar("E", Ready, Leased)

WHOLE_ENTRIES_MAX: Final = 1_000
"""An index up to this size is read with one listing; a larger one shard by shard."""
PAGE_ENTRIES: Final = 200
"""How many entries of one shard are taken in with one look."""
DELETIONS_AT_ONCE: Final = 16


class Page(Struct, frozen=True):
    """What a look at one shard found."""

    shard: str
    keys: Sequence[str]
    cut_at: str | None
    """Where to go on, if it was left before the end."""


class Index:
    def __init__(self, store: ObjectStore, services: Services) -> None:
        self._store = store
        self._tasks = TaskSet("index")
        self._slots = asyncio.Semaphore(DELETIONS_AT_ONCE)
        self._complaints = Complaints(logger, services.clock)
        self._is_large = {READY: False, LEASES: False}

    async def announce(self, job: Job) -> Ready | Leased | None:
        """Puts the entry of the stretch that the job is about to begin."""
        entry = entry_of(job)
        if entry is not None:
            await self._store.put(entry.key, b"", Overwrite())
        return entry

    def forget(self, entries: Iterable[Ready | Leased | None]) -> None:
        """Deletes entries some time soon. If that fails they are stale, which is no harm."""
        for entry in entries:
            if entry is not None:
                self._tasks.start("deleting an entry", self._delete(entry.key))

    async def close(self) -> None:
        await self._tasks.finished()
        await self._tasks.stop()

    async def look(
        self,
        index: str,
        shards: Sequence[str],
        until: float,
        wanted: Callable[[str], bool],
        cursors: Mapping[str, str] | None = None,
    ) -> list[Page]:
        """The first wanted entries of each shard that are filed up to a time, from a cursor on.

        Of a small index that is all there is, later ones included: it comes with one listing.
        """
        if len(shards) == len(SHARDS) and not cursors and not self._is_large[index]:
            keys: list[str] = []
            async for entry in self._store.list(index):
                if len(keys) == WHOLE_ENTRIES_MAX:
                    self._is_large[index] = True
                    break
                keys.append(entry.key)
            else:
                return [Page("", [key for key in keys if wanted(key)], None)]
        after = cursors or {}
        pages = await asyncio.gather(
            *(self._page(index, shard, until, wanted, after.get(shard, "")) for shard in shards)
        )
        found = sum(len(page.keys) for page in pages)
        if found < PAGE_ENTRIES and not any(page.cut_at for page in pages):
            self._is_large[index] = False
        return pages

    async def leases_until(self, until: float) -> tuple[list[Leased], float | None]:
        """The leases that end by then as far as the index says, and when the next one does."""
        pages = await self.look(LEASES, SHARDS, until, _any)
        entries = parsed(leased_in, [key for page in pages for key in page.keys])
        due = [entry for entry in entries if entry.until <= until]
        later = [entry.until for entry in entries if entry.until > until]
        return sorted(due, key=lambda entry: entry.until), min(later, default=None)

    async def leases_of(self, operation: str, since: float, until: float) -> list[Leased]:
        """The leases that a claim was given, whose ends were to be between these times."""
        claim = claim_tag(operation)
        folders = [
            lease_folder(claim, minute) for minute in range(minute_of(since), minute_of(until) + 1)
        ]
        found = await asyncio.gather(*map(self._keys, folders))
        return parsed(leased_in, [key for keys in found for key in keys])

    async def _page(
        self, index: str, shard: str, until: float, wanted: Callable[[str], bool], after: str
    ) -> Page:
        last_minute, keys = minute_of(until), list[str]()
        async for entry in self._store.list(f"{index}{shard}/", after):
            if minute_in(entry.key) > last_minute:
                break
            if wanted(entry.key):
                keys.append(entry.key)
                if len(keys) == PAGE_ENTRIES:
                    return Page(shard, keys, entry.key)
        return Page(shard, keys, None)

    async def _keys(self, folder: str) -> list[str]:
        return [entry.key async for entry in self._store.list(folder)]

    async def _delete(self, key: str) -> None:
        async with self._slots:
            try:
                await self._store.delete(key)
            except PenstockError as error:
                self._complaints.trouble("deleting a stale index entry", error)


def entry_of(job: Job) -> Ready | Leased | None:
    """What the job has to have in an index, as it is."""
    name, position = task_name(job.tenant, job.id), stretch_of(job)
    if job.state is State.PENDING:
        return Ready(job.priority, job.run_at, position, tags(job.queue, job.type), name)
    if job.state is State.RUNNING:
        assert job.lease is not None
        assert job.lease_until is not None
        return Leased(claim_tag(job.lease.secret), job.lease_until, position, name)
    return None


def old_entry(task: Task) -> Ready | Leased | None:
    """The entry that the task's job was given: a lease's does not move with every heartbeat."""
    entry = None if task.job is None else entry_of(task.job)
    if isinstance(entry, Leased):
        for event in reversed(task.events):
            if isinstance(event, Claimed | Adopted) and event.position == entry.position:
                until = event.lease_until or entry.until
                return msgspec.structs.replace(entry, until=until)
    return entry


def is_stale(entry: Ready | Leased, task: Task) -> bool:
    """Whether the entry stands for what the job was, or never became."""
    state = State.PENDING if isinstance(entry, Ready) else State.RUNNING
    job = task.job
    if job is not None and job.state is state and stretch_of(job) == entry.position:
        return False
    return last_position(task) >= entry.position


def parsed(parse: Callable[[str], E], keys: Iterable[str]) -> list[E]:
    """The entries of these names; what somebody else put there is left alone."""
    entries: list[E] = []
    for key in keys:
        try:
            entries.append(parse(key))
        except ValueError:
            continue
    return entries


def _any(key: str) -> bool:
    return True
