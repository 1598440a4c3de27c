"""Reading tasks, one or all: lists need all there is to know of each (`known` is for the rest)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, TypeAlias

from penstock.engines.histories import or_nothing
from penstock.engines.records.charters import prepared
from penstock.engines.records.tasks.documents import Kept, in_parallel
from penstock.engines.records.tasks.holders import hold_in
from penstock.engines.records.tasks.names import TASKS, name_in, tenant_prefix
from penstock.engines.records.tasks.turns import Turns
from penstock.errors import Corrupt
from penstock.kernel.departures import Departed
from penstock.kernel.job import ABSENT, Job
from penstock.kernel.tenancy import Hold, Scope
from penstock.ports.backend import Contents, TenantContents
from penstock.ports.store import Entry, ObjectStore
from penstock.wire.task import CharterObject, KeyObject, Task, payload_of

logger = logging.getLogger(__name__)

TASKS_PER_READ: Final = 500

Stamp: TypeAlias = tuple[float, int]
"""When an object was put and how large it is: if that is long ago, then all there is to know."""


def stamp_of(entry: Entry) -> Stamp:
    return entry.modified_at, entry.size_bytes


async def all_tasks(
    store: ObjectStore,
    turns: Turns,
    tenant: str | None = None,
    *,
    only_looks: bool = False,
) -> AsyncIterator[tuple[Entry, Kept[Task]]]:
    """Every task that can be read, of one tenant or of all, in no order.

    Openings that have become true are put, unless one `only_looks`.
    """
    prefix = "" if tenant is None else tenant_prefix(tenant)
    entries: list[Entry] = []
    async for entry in store.list(TASKS):
        if name_in(entry.key).startswith(prefix):
            entries.append(entry)
        if len(entries) == TASKS_PER_READ:
            for each in await read_all(turns, entries, only_looks=only_looks):
                yield each
            entries = []
    for each in await read_all(turns, entries, only_looks=only_looks):
        yield each


async def read_all(
    turns: Turns, entries: Sequence[Entry], *, only_looks: bool
) -> list[tuple[Entry, Kept[Task]]]:
    async def read(entry: Entry) -> Kept[Task] | None:
        try:
            kept = await turns.tasks.read(entry.key)
            return kept if kept is None or only_looks else await turns.settled(entry.key, kept)
        except Corrupt as error:
            # One that somebody has altered must not hide all others; `doctor` names it too.
            logger.warning("a job is left out: %s", error)
            return None

    found = await in_parallel(read, entries)
    return [(entry, kept) for entry, kept in zip(entries, found, strict=True) if kept is not None]


def whole(job: Job | None, kept: Kept[Task] | None) -> Job | None:
    """With the payload that a completed job has let go."""
    if job is None or kept is None or job.payload is not ABSENT or job.payload_key is not None:
        return job
    enqueued = payload_of(job, kept.document.events)
    if enqueued is None:
        return job
    with_payload: Job = job.__copy__()  # type: ignore[attr-defined]
    with_payload.payload = or_nothing(enqueued.payload)
    return with_payload


def contents(
    tasks: Sequence[Task],
    held: Sequence[KeyObject],
    charter: CharterObject,
    is_late: Callable[[Task], bool],
    at: float,
) -> Contents:
    """What there is of all tenants; late tasks, and keys that they took, are as if not there."""
    state = prepared(charter.charter)
    known = {(task.tenant, task.id): task for task in tasks}
    for task in tasks:
        if task.job is not None and not is_late(task):
            state.adopt(task.job)
    keys: dict[str, list[tuple[Scope, Hold]]] = {}
    for one in held:
        holder = state.tenancy(one.tenant).jobs.get(one.id)
        is_live = holder is not None and holder.life == one.life and not holder.is_terminal
        taker = known.get((one.tenant, one.id))
        hold = hold_in(one, taker)
        if hold is None or hold.until is None or (taker is not None and is_late(taker)):
            continue
        if hold.until > state.as_of(at) and not is_live:
            scope = (one.queue, one.type, one.key)
            keys.setdefault(one.tenant, []).append((scope, hold))
    departed: dict[str, list[tuple[str, Departed]]] = {}
    for task in tasks:
        if task.departed is not None:
            state.departures.remember(task.tenant, task.id, task.departed)
        if not is_late(task) and state.find(task.tenant, task.id, at) is None:
            left = state.departed(task.tenant, task.id, at)
            if left is not None:
                departed.setdefault(task.tenant, []).append((task.id, left))
    tenants = [
        TenantContents(
            name,
            sum(state.find(name, id, at) is not None for id in tenancy.jobs),
            sorted(tenancy.paused),
            keys.get(name, []),
            departed.get(name, []),
        )
        for name, tenancy in sorted(state.tenants.items())
    ]
    return Contents(at, charter.charter.settings, tenants, charter.charter.moves)
