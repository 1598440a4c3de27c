"""Looking at the state: counts, and whether waiting is over. Nothing here changes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf

from msgspec import Struct

from penstock.engines.listing import listing as admitted_listing
from penstock.engines.listing import named
from penstock.kernel.job import Job, State
from penstock.kernel.manifest import ChunkPlace, Row
from penstock.kernel.segments import Segment, Waiting
from penstock.kernel.state import QueueState
from penstock.kernel.tenancy import Hold, QueueCounts, Tenancy
from penstock.ports.backend import Contents, Filter, QueueStats, Stats, TenantContents


class UnadmittedChunk(Struct, frozen=True):
    """Rows of an import that waited when somebody looked."""

    segment: Segment
    place: ChunkPlace
    reached: int
    ahead: frozenset[int]

    def jobs(self, rows: Sequence[Row]) -> Iterator[Job]:
        for number, row in enumerate(rows, start=self.place.first):
            if number >= self.reached and number not in self.ahead:
                yield Waiting(self.segment, number).job(row)


class Listing(Struct, frozen=True):
    jobs: list[Job]
    unadmitted: list[UnadmittedChunk]


def listing(state: QueueState, tenant: str, filter: Filter, at: float) -> Listing:
    jobs = admitted_listing(state, tenant, filter, at)
    return Listing(jobs, _unadmitted(state, tenant, filter))


def _unadmitted(state: QueueState, tenant: str, filter: Filter) -> list[UnadmittedChunk]:
    if filter.archived or filter.state not in (None, State.PENDING):
        return []
    return unadmitted_chunks(
        segment
        for segment in state.imports.segments(tenant)
        if filter.queue in (None, segment.record.queue)
        and filter.type in (None, segment.record.type)
    )


def unadmitted_chunks(segments: Iterable[Segment]) -> list[UnadmittedChunk]:
    return [
        UnadmittedChunk(segment, place, segment.reached, frozenset(segment.ahead))
        for segment in segments
        for _, place, _ in segment.waiting()
    ]


def stats(state: QueueState, tenant: str, commit: int, at: float) -> Stats:
    tenancy = state.tenants.get(tenant)
    if tenancy is None:
        return Stats({}, [], 0, commit, at)
    scheduled, unadmitted = _scheduled_by_queue(state, tenancy), _unadmitted_by_queue(state, tenant)
    # A queue is one that ever had a job or is paused; what was rolled back leaves an empty count.
    known = {name for name, counts in tenancy.counts.items() if any(counts.now.values())}
    names = sorted(known | tenancy.paused | set(unadmitted))
    queues = [
        _queue_stats(tenancy, name, scheduled.get(name, 0), unadmitted.get(name, 0))
        for name in names
    ]
    totals = {
        state: sum(tenancy.counts[name].now[state] for name in tenancy.counts) for state in State
    }
    rest = sum(unadmitted.values())
    totals[State.PENDING] += rest
    return Stats(named(totals), queues, len(tenancy.jobs), commit, at, rest)


def contents(state: QueueState, at: float) -> Contents:
    runs = state.imports.runs
    return Contents(
        at=at,
        settings=state.settings,
        tenants=[_tenant_contents(state, name, at) for name in sorted(state.tenants)],
        moves=state.moves,
        runs={run: record.jobs for run, record in runs.items() if record.status == "published"},
        runs_aborted=tuple(run for run, record in runs.items() if record.status == "aborted"),
        queries=dict(state.imports.queries),
    )


def _tenant_contents(state: QueueState, name: str, at: float) -> TenantContents:
    tenancy = state.tenants[name]
    unadmitted = sum(segment.unadmitted for segment in state.imports.segments(name))
    held = [
        (scope, hold)
        for scope, hold in sorted(tenancy.keys.items(), key=lambda item: item[0])
        if state.holder(name, scope, at) is hold and not _is_live(tenancy, hold)
    ]
    return TenantContents(name, len(tenancy.jobs) + unadmitted, sorted(tenancy.paused), held)


def _is_live(tenancy: Tenancy, hold: Hold) -> bool:
    job = tenancy.jobs.get(hold.id)
    return job is not None and job.life == hold.life and not job.is_terminal


def due_seconds(
    state: QueueState,
    tenant: str,
    queues: Sequence[str] | None,
    types: Sequence[str] | None,
    at: float,
) -> float:
    """How long until a claim may find something; 0 or less: now."""
    due = _next_due_seconds(state, at)
    tenancy = state.tenants.get(tenant)
    if due <= 0 or tenancy is None:
        return due
    # A clock that was set back may find jobs in the lanes that it does not yet call due.
    heads = (lane.first() for lane in tenancy.open_lanes(queues, types))
    return 0.0 if any(head is not None and head[-1].run_at <= at for head in heads) else due


def _next_due_seconds(state: QueueState, at: float) -> float:
    """How long until a scheduled job comes due or a lease dies; infinite if there is neither."""
    scheduled, lease_until = state.pending.scheduled.first(), state.leases.next_until()
    due_at: float = scheduled[0] if scheduled is not None else inf
    if lease_until is not None:
        due_at = min(due_at, lease_until + state.settings.clock_skew_seconds)
    return due_at - at


def _scheduled_by_queue(state: QueueState, tenancy: Tenancy) -> dict[str, int]:
    counts: dict[str, int] = {}
    for entry in state.pending.scheduled.unordered():
        job = entry[-1]
        if isinstance(job, Job) and job.tenant == tenancy.name:
            counts[job.queue] = counts.get(job.queue, 0) + 1
    for segment in state.imports.segments(tenancy.name):
        queue = segment.record.queue
        for chunk, _, rows in segment.waiting():
            if chunk.run_at > state.pending.at:
                counts[queue] = counts.get(queue, 0) + rows
    return counts


def _unadmitted_by_queue(state: QueueState, tenant: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for segment in state.imports.segments(tenant):
        queue = segment.record.queue
        counts[queue] = counts.get(queue, 0) + segment.unadmitted
    return counts


def _queue_stats(tenancy: Tenancy, queue: str, scheduled: int, unadmitted: int) -> QueueStats:
    counts = tenancy.counts.get(queue) or QueueCounts()
    waiting = (
        entry[1] for lane in tenancy.lanes.get(queue, {}).values() for entry in lane.unordered()
    )
    totals = {**counts.now, State.PENDING: counts.now[State.PENDING] + unadmitted}
    return QueueStats(
        queue=queue,
        totals=named(totals),
        pending=counts.live(State.PENDING) + unadmitted,
        scheduled=scheduled,
        running=counts.live(State.RUNNING),
        paused=queue in tenancy.paused,
        oldest_ready_at=min(waiting, default=None),
        unadmitted=unadmitted,
    )
