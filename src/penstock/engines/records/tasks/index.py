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
LISTED_PER_PAGE_MAX: Final = 1_000
"""How many names of one shard a look goes through for that: those of other queues and types lie
between the wanted ones, and no look should have to list them all."""
DELETIONS_AT_ONCE: Final = 16
SEARCHES_PER_CLAIM_MAX: Final = 8
"""After that many looks at what is not wanted a claim makes do with what it has, and the next one
goes on from there."""


class Page(Struct, frozen=True):
    """What a look at one shard found."""

    shard: str
    keys: Sequence[str]
    cut_at: str | None
    """Where to go on, if it was left before the end."""

    @property
    def is_unfinished(self) -> bool:
        """Whether it was left because of what is not wanted, so that more may be wanted."""
        return self.cut_at is not None and len(self.keys) < PAGE_ENTRIES


class Round:
    """One claim's way through the shards: each from its cursor on, then from its beginning."""

    def __init__(self, shards: Sequence[str]) -> None:
        self._left = list(shards)
        self._from_the_beginning: set[str] = set()
        self.searches = 0
        """Looks that ended among what is not wanted."""

    @property
    def is_over(self) -> bool:
        return not self._left or self.searches >= SEARCHES_PER_CLAIM_MAX

    def begin(self, cursors: Mapping[str, str]) -> list[str]:
        self._from_the_beginning.update(shard for shard in self._left if shard not in cursors)
        return list(self._left)

    def finish(self, shards: Sequence[str]) -> None:
        """The end of these was reached."""
        over = self._from_the_beginning.intersection(shards)
        self._left = [shard for shard in self._left if shard not in over]


class Index:
    def __init__(self, store: ObjectStore, services: Services) -> None:
        self._store = store
        self._tasks = TaskSet("index")
        self._slots = asyncio.Semaphore(DELETIONS_AT_ONCE)
        self._complaints = Complaints(logger, services.clock)
        self._is_large = {READY: False, LEASES: False}

    async def announce(self, job: Job, early_seconds: float) -> Ready | Leased | None:
        """Puts the entry of the stretch that the job is about to begin."""
        entry = entry_of(job, early_seconds)
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

    async def leases_until(self, until: float) -> list[Leased]:
        """The leases that end by then as far as the index says, and some that end later."""
        pages = await self.look(LEASES, SHARDS, until, _any)
        entries = parsed(leased_in, [key for page in pages for key in page.keys])
        return sorted(entries, key=lambda entry: entry.until)

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
        last_minute, keys, listed = minute_of(until), list[str](), 0
        async for entry in self._store.list(f"{index}{shard}/", after):
            if minute_in(entry.key) > last_minute:
                break
            if wanted(entry.key):
                keys.append(entry.key)
            listed += 1
            if len(keys) == PAGE_ENTRIES or listed == LISTED_PER_PAGE_MAX:
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


def entry_of(job: Job, early_seconds: float) -> Ready | Leased | None:
    """What the job has to have in an index, as it is; so much sooner than its own time says."""
    name, position = task_name(job.tenant, job.id), stretch_of(job)
    if job.state is State.PENDING:
        due_at = job.run_at - early_seconds
        return Ready(job.priority, due_at, position, tags(job.queue, job.type), name)
    if job.state is State.RUNNING:
        assert job.lease is not None
        assert job.lease_until is not None
        until = job.lease_until - early_seconds
        return Leased(claim_tag(job.lease.secret), until, position, name)
    return None


def old_entry(task: Task) -> Ready | Leased | None:
    """The entry that the task's job was given: a lease's does not move with every heartbeat."""
    entry = None if task.job is None else entry_of(task.job, task.early_seconds)
    if isinstance(entry, Leased):
        for event in reversed(task.events):
            if isinstance(event, Claimed | Adopted) and event.position == entry.position:
                if event.lease_until is not None:
                    until = event.lease_until - task.early_seconds
                    entry = msgspec.structs.replace(entry, until=until)
                return entry
    return entry


def is_stale(entry: Ready | Leased, task: Task) -> bool:
    """Whether the entry stands for what the job was, or never became."""
    return not is_of(entry, task) and last_position(task) >= entry.position


def is_of(entry: Ready | Leased, task: Task) -> bool:
    """Whether the entry stands for what the job is."""
    state = State.PENDING if isinstance(entry, Ready) else State.RUNNING
    job = task.job
    return job is not None and job.state is state and stretch_of(job) == entry.position


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
