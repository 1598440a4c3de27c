"""Looking at what is stored: lists, counts and histories. Nothing here changes it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

from penstock.engines.histories import follow_trail
from penstock.engines.listing import listing, named
from penstock.engines.records.shelves import shelves_for
from penstock.errors import Gap
from penstock.kernel.events import Event, JobEvent, position_of
from penstock.kernel.job import Job, State
from penstock.kernel.moves import under_way
from penstock.kernel.state import QueueState
from penstock.ports.backend import Contents, Filter, QueueStats, Stats, TenantContents, TypeStats
from penstock.ports.clock import Clock
from penstock.ports.counters import Count, Survey, Waiting
from penstock.ports.records import (
    RecordStore,
)
from penstock.runtime.backoff import Backoff
from penstock.wire.commit import decode_some
from penstock.wire.record import Charter, decode_job

COUNTED_AT_ONCE_MAX: Final = 1_000
"""Of that many counters the event loop may make stats by itself: a few milliseconds."""


async def settled_commit(store: RecordStore, backoff: Backoff, clock: Clock) -> int:
    """The newest commit as of the call, once it and all before it can be read."""
    newest = (await store.head()).commit
    while (await store.head()).readable < newest:
        await clock.sleep(backoff.next_seconds())
    return newest


async def jobs(
    store: RecordStore, charter: Charter, tenant: str, filter: Filter, at: float
) -> list[Job]:
    bodies = await store.listing(tenant, shelves_for(filter), filter.queue, filter.type)
    state = QueueState()
    state.settings, state.moves = charter.settings, charter.moves
    for body in bodies:
        state.adopt(decode_job("a listed record", body))
    return listing(state, tenant, filter, at)


async def take_stats(store: RecordStore, tenant: str, paused: Sequence[str], at: float) -> Stats:
    survey = await store.survey(tenant, at)
    if len(survey.counts) <= COUNTED_AT_ONCE_MAX:
        return stats(survey, paused, at)
    # So that nobody else's calls wait while the rows of many queues are made.
    return await asyncio.to_thread(stats, survey, paused, at)


def stats(survey: Survey, paused: Sequence[str], at: float) -> Stats:
    totals: dict[State, int] = {}
    by_queue: dict[str, list[Count]] = {}
    for count in survey.counts:
        totals[count.state] = totals.get(count.state, 0) + count.now
        by_queue.setdefault(count.queue, []).append(count)
    known = {queue for queue, counts in by_queue.items() if any(count.now for count in counts)}
    waiting: dict[str, list[Waiting]] = {}
    for one in survey.waiting:
        waiting.setdefault(one.queue, []).append(one)
    queues = [
        _queue_stats(queue, by_queue.get(queue, []), waiting.get(queue, []), queue in paused, at)
        for queue in sorted(known.union(paused))
    ]
    live = sum(count.now - count.left for count in survey.counts)
    return Stats(named(totals), queues, live, survey.commit, at, state_bytes=survey.state_bytes)


async def contents(store: RecordStore, charter: Charter, at: float) -> Contents:
    names = sorted({*await store.tenants(), *charter.paused})
    tenants = [await _tenant_contents(store, charter, name, at) for name in names]
    return Contents(at, charter.settings, tenants, charter.moves)


async def _tenant_contents(
    store: RecordStore, charter: Charter, tenant: str, at: float
) -> TenantContents:
    counts = (await store.survey(tenant, at)).counts
    jobs = sum(count.now - count.left for count in counts)
    move = under_way(charter.moves)
    as_of = at if move is None else min(at, move.as_of)
    keys = [(one.scope, one.hold) for one in await store.lapsing(tenant, as_of)]
    departed = [(one.id, one.departed) for one in await store.remembered(tenant, as_of)]
    return TenantContents(tenant, jobs, charter.paused.get(tenant, []), keys, departed)


async def history(
    store: RecordStore, job: Job | None, tenant: str, id: str, life: int | None
) -> list[JobEvent]:
    """Of the job as it is, or of an earlier one of that id, by where its events are."""
    if job is not None:
        life, trail = job.life, job.trail
    else:
        departure = await store.departure(tenant, id, life)
        if departure is None:
            return []
        life, trail = departure.life, departure.trail
    return await follow_trail((life, *trail), partial(events_at, store))


async def events_at(store: RecordStore, commit: int, positions: Collection[int]) -> list[Event]:
    data = await store.commit(commit)
    if data is None:
        raise Gap(position_of(commit, 0), await store.first_commit())
    return decode_some(f"commit {commit}", data, positions)


def _queue_stats(
    queue: str, counts: list[Count], waiting: list[Waiting], paused: bool, at: float
) -> QueueStats:
    live = {count.state: count.now - count.left for count in counts}
    types = [
        TypeStats(one.type, one.pending, one.oldest_at if one.oldest_at <= at else None)
        for one in sorted(waiting, key=lambda one: one.type)
    ]
    ready_at = (one.oldest_ready_at for one in types if one.oldest_ready_at is not None)
    return QueueStats(
        queue=queue,
        totals=named({count.state: count.now for count in counts}),
        pending=live.get(State.PENDING, 0),
        scheduled=sum(one.scheduled for one in waiting),
        running=live.get(State.RUNNING, 0),
        paused=paused,
        oldest_ready_at=min(ready_at, default=None),
        types=types,
    )
