"""A list of jobs, by the names of their objects: a listing, and a read for each that it comes upon.

No index has them by age. A name stands, though, so that a list can go on behind it.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterable

from penstock.engines.listing import passing
from penstock.engines.records.charters import prepared
from penstock.engines.records.tasks.charter import CharterStore
from penstock.engines.records.tasks.looking import read_all
from penstock.engines.records.tasks.names import (
    SHARDS,
    TASKS,
    name_in,
    task_key,
    task_name,
    tenant_prefix,
)
from penstock.engines.records.tasks.turns import Turns
from penstock.kernel.job import Job
from penstock.ports import listing as pages
from penstock.ports.backend import Filter
from penstock.ports.store import Entry, ObjectStore
from penstock.wire.record import Charter
from penstock.wire.task import Task


async def listed(
    store: ObjectStore,
    turns: Turns,
    charter: CharterStore,
    tenant: str,
    filter: Filter,
    at: float,
    after: str | None,
    limit: int | None,
) -> AsyncIterator[Job]:
    left = sys.maxsize if limit is None else limit
    key = "" if after is None else task_key(task_name(tenant, pages.place_in(after).id))
    while left > 0:
        count = pages.PAGE_JOBS if filter != Filter() else min(left, pages.PAGE_JOBS)
        entries = await _next_entries(store, tenant, key, count)
        found = await read_all(turns, entries, only_looks=True)
        tasks = [kept.document for _, kept in found if not charter.is_late(kept.document)]
        for job in jobs_of(tasks, charter.current, filter, at)[:left]:
            left -= 1
            yield job
        if len(entries) < count:
            return
        key = entries[-1].key


async def _next_entries(store: ObjectStore, tenant: str, after: str, count: int) -> list[Entry]:
    entries: list[Entry] = []
    async for entry in entries_of(store, tenant, after):
        entries.append(entry)
        if len(entries) == count:
            break
    return entries


async def entries_of(store: ObjectStore, tenant: str, after: str) -> AsyncIterator[Entry]:
    """The tasks of one tenant behind a key, by their own keys.

    In each shard they stand together, so that a listing goes past those of others in one step.
    """
    prefix = tenant_prefix(tenant)
    while True:
        async for entry in store.list(TASKS, after):
            name = name_in(entry.key)
            if not name.startswith(prefix):
                after = entry.key
                break
            yield entry
        else:
            return
        places = (f"{TASKS}{shard}/{prefix}" for shard in SHARDS)
        ahead = next((place for place in places if place > after), None)
        if ahead is None:
            return
        after = ahead


def jobs_of(tasks: Iterable[Task], charter: Charter, filter: Filter, at: float) -> list[Job]:
    """Of a page of tasks, the jobs that a filter lets through."""
    state = prepared(charter)
    jobs = [task.job for task in tasks if task.job is not None]
    for job in jobs:
        state.adopt(job)
    return passing(state, filter, jobs, at)
