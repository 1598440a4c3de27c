"""What is known of every task, so that what has not changed is not read again.

A listing says of each object when it was put and how large it is. If that is what it was when the
object was read, and the object had been there for a while by then, then it has not changed: a later
put would be stamped later. So a look at all tasks costs the listing, and one read for each task
that has changed since the last look (or was put just before that one: it is read a second time).

This is kept in memory. So that a process that starts anew need not read everything either, those
who repair the index put it into one object per shard, now and then and where much has changed.
Nobody relies on these: they are compared with the listing like what is in memory.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from math import inf
from typing import Final

from penstock.engines.calibration import CommitClock
from penstock.engines.records.tasks import stories
from penstock.engines.records.tasks.documents import Kept, in_parallel
from penstock.engines.records.tasks.looking import TASKS_PER_READ, read_all
from penstock.engines.records.tasks.names import (
    SUMMARIES,
    TASKS,
    name_in,
    shard_in_summary,
    shard_of,
    summary_key,
    task_key,
    tenant_prefix,
)
from penstock.engines.records.tasks.turns import Turns
from penstock.errors import Corrupt, ObjectNotFound
from penstock.kernel.events import Adopted, Completed, Enqueued, Event
from penstock.kernel.job import State
from penstock.ports.store import Entry, ObjectStore, Overwrite
from penstock.wire.seen import Seen, decode_summary, encode_summary
from penstock.wire.task import Task

logger = logging.getLogger(__name__)

KNOWN_MAX: Final = 1_000_000
"""Tasks that are remembered, at about half a kilobyte each; more are read each time."""
SETTLED_SECONDS: Final = 10.0
"""An object that was older than this when it was listed is known by its time and size."""
SUMMARY_TASKS_MIN: Final = 1_000
"""A smaller queue is read in no time."""
SUMMARY_SECONDS: Final = 3_600.0
"""How often a process puts summaries at most."""
CHANGED_SHARE: Final = 0.1
"""How much of a shard must have changed for its summary to be put again."""

Look = tuple[Entry, Seen, Kept[Task] | None]
"""A task as it was listed, what is known of it, and itself if it was read for this."""


class Known:
    def __init__(self, store: ObjectStore, turns: Turns, clock: CommitClock) -> None:
        self._store = store
        self._turns = turns
        self._clock = clock
        self._tasks: dict[str, Seen] = {}
        self._is_recalled = False
        self._put_at = -inf
        self._changed: dict[str, int] = {}
        """By shard, how many tasks its summary does not have as they are."""

    async def look(self, tenant: str | None = None, *, only_looks: bool) -> AsyncIterator[Look]:
        """Every task that can be read, of one tenant or of all, in no order.

        Openings that have become true are put, unless one `only_looks`.
        """
        await self._recall()
        prefix = "" if tenant is None else tenant_prefix(tenant)
        listed_at, listed, changed = self._clock.now(), set[str](), list[Entry]()
        async for entry in self._store.list(TASKS):
            if not name_in(entry.key).startswith(prefix):
                continue
            listed.add(entry.key)
            seen = self._tasks.get(entry.key)
            if seen is not None and _is_as_listed(seen, entry):
                yield entry, seen, None
                continue
            changed.append(entry)
            if len(changed) == TASKS_PER_READ:
                async for one in self._read(changed, listed_at, only_looks=only_looks):
                    yield one
                changed = []
        async for one in self._read(changed, listed_at, only_looks=only_looks):
            yield one
        if tenant is None:
            for key in self._tasks.keys() - listed:
                self._forget(key)

    async def of(self, tenant: str) -> dict[str, Seen]:
        """What is known of a tenant's tasks as of now, by their keys; nothing is put."""
        return {entry.key: seen async for entry, seen, _ in self.look(tenant, only_looks=True)}

    async def summarise(self) -> None:
        """Puts what is known beside the tasks, if that will save the next process much reading."""
        elapsed = self._clock.elapsed()
        is_due = elapsed - self._put_at >= SUMMARY_SECONDS
        if not is_due or len(self._tasks) < SUMMARY_TASKS_MIN:
            return
        by_shard: dict[str, dict[str, Seen]] = {}
        for key, seen in self._tasks.items():
            name = name_in(key)
            by_shard.setdefault(shard_of(name), {})[name] = seen
        for shard, tasks in by_shard.items():
            if self._changed.get(shard, 0) > CHANGED_SHARE * len(tasks):
                await self._store.put(summary_key(shard), encode_summary(tasks), Overwrite())
                self._changed[shard] = 0
                self._put_at = elapsed

    async def _recall(self) -> None:
        if self._is_recalled:
            return
        keys = [entry.key async for entry in self._store.list(SUMMARIES)]
        await in_parallel(self._recall_shard, keys)
        self._is_recalled = True

    async def _recall_shard(self, key: str) -> None:
        try:
            tasks = decode_summary(key, (await self._store.get(key)).data)
        except ObjectNotFound:
            return
        except Corrupt as error:
            # The tasks are read instead, and the next summary replaces it.
            logger.info("a summary is not believed: %s", error)
            return
        shard = shard_in_summary(key)
        for name, seen in tasks.items():
            if len(self._tasks) < KNOWN_MAX and shard_of(name) == shard:
                self._tasks.setdefault(task_key(name), seen)

    async def _read(
        self, entries: list[Entry], listed_at: float, *, only_looks: bool
    ) -> AsyncIterator[Look]:
        for entry, kept in await read_all(self._turns, entries, only_looks=only_looks):
            seen = seen_of(entry, kept.document)
            is_settled = kept.modified_at < listed_at - SETTLED_SECONDS
            if is_settled and kept.document.opening is None and self._has_room_for(entry.key):
                self._tasks[entry.key] = seen
                self._note_change(entry.key)
            yield entry, seen, kept

    def _has_room_for(self, key: str) -> bool:
        return len(self._tasks) < KNOWN_MAX or key in self._tasks

    def _forget(self, key: str) -> None:
        del self._tasks[key]
        self._note_change(key)

    def _note_change(self, key: str) -> None:
        shard = shard_of(name_in(key))
        self._changed[shard] = self._changed.get(shard, 0) + 1


def seen_of(entry: Entry, task: Task) -> Seen:
    job = task.job
    common = (
        entry.modified_at, entry.size_bytes, stories.last_position(task), stories.last_at(task),
        task.stamp, task.sealed, task.made, task.buried, task.spared, bool(task.events),
        task.left or None, 0.0 if task.departed is None else task.departed.until,
        tuple(_names(task)),
    )  # fmt: skip
    if job is None:
        return Seen(*common)
    due_at = job.run_at - task.early_seconds if job.state is State.PENDING else 0.0
    return Seen(
        *common, job.state, job.queue, job.type, job.life, stories.stretch_of(job), due_at,
        job.ended_at, job.archived_at,
    )  # fmt: skip


def time_of_seen(seen: Seen, clock: float) -> float:
    """The time of this job when that is the clock's."""
    return stories.time_from(seen.stamp, seen.last_at, clock)


def _is_as_listed(seen: Seen, entry: Entry) -> bool:
    return (seen.modified_at, seen.size_bytes) == (entry.modified_at, entry.size_bytes)


def _names(task: Task) -> Iterator[str]:
    events: tuple[Event | None, ...] = (*task.events, task.opening)
    for event in events:
        if isinstance(event, Enqueued) and event.payload_key is not None:
            yield event.payload_key
        if isinstance(event, Completed | Adopted) and event.result_key is not None:
            yield event.result_key
