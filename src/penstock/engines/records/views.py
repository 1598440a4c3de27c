"""Looking at what is stored: lists, counts and histories. Nothing here changes it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Collection, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from penstock.engines.histories import follow_trail
from penstock.engines.listing import named, passing
from penstock.engines.records.charters import prepared
from penstock.engines.records.needs import Look
from penstock.engines.records.shelves import shelves_for
from penstock.engines.records.turns import Turn
from penstock.errors import Gap
from penstock.kernel.events import EVENTS_PER_COMMIT, Event, JobEvent, position_of
from penstock.kernel.job import Job, State
from penstock.kernel.moves import under_way
from penstock.kernel.state import QueueState
from penstock.ports import listing as pages
from penstock.ports.backend import Contents, Filter, QueueStats, Stats, TenantContents, TypeStats
from penstock.ports.counters import Count, Survey, Waiting
from penstock.ports.records import RecordStore, Shelf
from penstock.wire.commit import decode_some
from penstock.wire.record import Charter, decode_job

COUNTED_AT_ONCE_MAX: Final = 1_000
"""Of that many counters the event loop may make stats by itself: a few milliseconds."""
_LIVES_END: Final = 10**18


async def jobs(
    store: RecordStore,
    charter: Charter,
    tenant: str,
    filter: Filter,
    at: float,
    after: str | None,
    limit: int | None,
) -> AsyncIterator[Job]:
    """Those whose lives have begun by now, page by page."""
    left = sys.maxsize if limit is None else limit
    until = position_of((await store.head()).commit, EVENTS_PER_COMMIT - 1)
    asked = pages.PageAsked(
        tenant, shelves_for(filter), filter.queue, filter.type, 0, until, pages.PAGE_JOBS
    )  # fmt: skip
    reached = 0 if after is None else pages.place_in(after).life
    while left > 0:
        page = await store.listing(replace(asked, after=reached, count=min(left, pages.PAGE_JOBS)))
        found = [decode_job("a listed record", body) for body in page.bodies]
        state = prepared(charter)
        for job in found:
            state.adopt(job)
        for job in passing(state, filter, found, at):
            left -= 1
            yield job
        if page.reached is None:
            return
        reached = page.reached


async def all_jobs(store: RecordStore, tenant: str, shelves: Sequence[Shelf]) -> list[Job]:
    """Those of these shelves, each as of the page that it is on."""
    asked = pages.PageAsked(tenant, shelves, None, None, 0, _LIVES_END, pages.LOOKED_AT_MAX)
    jobs: list[Job] = []
    while True:
        page = await store.listing(asked)
        jobs += [decode_job("a listed record", body) for body in page.bodies]
        if page.reached is None:
            return jobs
        asked = replace(asked, after=page.reached)


async def ended(
    store: RecordStore, turn: Turn, awaited: list[tuple[str, str]], now: float
) -> list[tuple[str, str]]:
    """Which of these jobs, by tenant and id, have ended or are not there."""

    def look(state: QueueState, at: float) -> list[Job | None]:
        return [state.look(tenant, id, at) for tenant, id in awaited]

    turn.begin_again([Look(look, awaited)])
    turn.begin(now)
    await store.turn(turn.ask, turn.decide, is_read=True)
    jobs: list[Job | None] = turn.answers[0]
    each = zip(awaited, jobs, strict=True)
    return [place for place, job in each if job is None or job.is_terminal]


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
    return Stats(
        named(totals),
        queues,
        live,
        survey.commit,
        at,
        state_bytes=survey.state_bytes,
        events_behind=survey.events_behind,
    )


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
