"""Looking at what is stored: lists, counts and histories. Nothing here changes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from penstock.engines.histories import history_of
from penstock.engines.listing import listing, named
from penstock.engines.records.shelves import shelves_for
from penstock.kernel.events import Event, JobEvent, commit_of
from penstock.kernel.job import Job, State
from penstock.kernel.moves import under_way
from penstock.kernel.state import QueueState
from penstock.kernel.transitions import TRAIL_POSITIONS_MAX
from penstock.ports.backend import Contents, Filter, QueueStats, Stats, TenantContents
from penstock.ports.records import Count, RecordStore, Survey, Waiting
from penstock.wire.commit import decode_commit
from penstock.wire.record import Charter, decode_job

COMMITS_PER_READ: Final = 64


async def jobs(
    store: RecordStore, charter: Charter, tenant: str, filter: Filter, at: float
) -> list[Job]:
    bodies = await store.listing(tenant, shelves_for(filter), filter.queue, filter.type)
    state = QueueState()
    state.settings, state.moves = charter.settings, charter.moves
    for body in bodies:
        state.adopt(decode_job("a listed record", body))
    return listing(state, tenant, filter, at)


def stats(survey: Survey, paused: Sequence[str], at: float) -> Stats:
    totals: dict[State, int] = {}
    by_queue: dict[str, list[Count]] = {}
    for count in survey.counts:
        totals[count.state] = totals.get(count.state, 0) + count.now
        by_queue.setdefault(count.queue, []).append(count)
    known = {queue for queue, counts in by_queue.items() if any(count.now for count in counts)}
    waiting = {one.queue: one for one in survey.waiting}
    queues = [
        _queue_stats(queue, by_queue.get(queue, []), waiting.get(queue), queue in paused, at)
        for queue in sorted(known.union(paused))
    ]
    live = sum(count.now - count.left for count in survey.counts)
    return Stats(named(totals), queues, live, survey.commit, at)


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
    held = await store.lapsing(tenant, at if move is None else min(at, move.as_of))
    keys = [(one.scope, one.hold) for one in held]
    return TenantContents(tenant, jobs, charter.paused.get(tenant, []), keys)


async def history(store: RecordStore, job: Job | None, tenant: str, id: str) -> list[JobEvent]:
    """Of the job as it is, or of the last one of that id, by where its events are."""
    if job is not None:
        life, trail = job.life, job.trail
    else:
        departure = await store.departure(tenant, id)
        if departure is None:
            return []
        life, trail = departure.life, departure.trail
    if len(trail) < TRAIL_POSITIONS_MAX:
        events = await _events_at(store, (life, *trail))
    else:
        events = await _events_between(store, commit_of(life), commit_of(trail[-1]))
    return history_of(events, tenant, id)


async def _events_at(store: RecordStore, positions: Iterable[int]) -> list[Event]:
    wanted = set(positions)
    events: list[Event] = []
    for number in dict.fromkeys(map(commit_of, sorted(wanted))):
        data = await store.commit(number)
        if data is not None:
            commit = decode_commit(f"commit {number}", data)
            events += [event for event in commit.events if event.position in wanted]
    return events


async def _events_between(store: RecordStore, first: int, last: int) -> list[Event]:
    """All of them: a trail that is full has forgotten its beginning."""
    events: list[Event] = []
    reached = first - 1
    while reached < last and (page := await store.commits(reached, COMMITS_PER_READ)):
        for number, data in page:
            if number <= last:
                events += decode_commit(f"commit {number}", data).events
        reached = page[-1][0]
    return events


def _queue_stats(
    queue: str, counts: list[Count], waiting: Waiting | None, paused: bool, at: float
) -> QueueStats:
    live = {count.state: count.now - count.left for count in counts}
    oldest_at = waiting.oldest_at if waiting is not None and waiting.oldest_at <= at else None
    return QueueStats(
        queue=queue,
        totals=named({count.state: count.now for count in counts}),
        pending=live.get(State.PENDING, 0),
        scheduled=waiting.scheduled if waiting is not None else 0,
        running=live.get(State.RUNNING, 0),
        paused=paused,
        oldest_ready_at=oldest_at,
    )
