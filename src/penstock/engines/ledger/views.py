"""Looking at the state: lists, counts, and whether waiting is over. Nothing here changes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from copy import copy
from math import inf
from typing import TypeAlias

from msgspec import Struct

from penstock.errors import Gap
from penstock.kernel.events import Completed, Enqueued, Event, commit_of
from penstock.kernel.job import ABSENT, Job, State
from penstock.kernel.manifest import ChunkPlace, Row
from penstock.kernel.segments import Segment, Waiting
from penstock.kernel.state import QueueState
from penstock.kernel.tenancy import QueueCounts, Tenancy
from penstock.ports.backend import Filter, QueueStats, Stats

Read: TypeAlias = Callable[[int], Awaitable[Sequence[Event]]]
"""Reads one commit; raises `Gap` where it was vacuumed."""


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
    tenancy = state.tenants.get(tenant)
    if tenancy is None:
        return Listing([], [])
    jobs = [job for job in tenancy.jobs.values() if filter.matches(job)]
    jobs = [job for job in jobs if state.find(tenant, job.id, at) is not None]
    return Listing(sorted(jobs, key=lambda job: job.life), _unadmitted(state, tenant, filter))


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
    return Stats(_named(totals), queues, len(tenancy.jobs), commit, at, rest)


def may_be_ready(
    state: QueueState,
    tenant: str,
    queues: Sequence[str] | None,
    types: Sequence[str] | None,
    at: float,
) -> bool:
    """Whether a claim at this time may find something."""
    if next_due_seconds(state, at) <= 0:
        return True
    tenancy = state.tenants.get(tenant)
    if tenancy is None:
        return False
    # A clock that was set back may find jobs in the lanes that it does not yet call due.
    heads = (lane.first() for lane in tenancy.open_lanes(queues, types))
    return any(head is not None and head[-1].run_at <= at for head in heads)


def next_due_seconds(state: QueueState, at: float) -> float:
    """How long until a scheduled job comes due or a lease dies; infinite if there is neither."""
    scheduled, lease_until = state.pending.scheduled.first(), state.leases.next_until()
    due_at: float = scheduled[0] if scheduled is not None else inf
    if lease_until is not None:
        due_at = min(due_at, lease_until + state.settings.clock_skew_seconds)
    return due_at - at


async def read_back(jobs: Sequence[Job | None], read: Read) -> list[Job | None]:
    """Completed jobs with what was let go to keep them slim, where the log still has it.

    A commit is read once, however many of the jobs it is about.
    """
    slim = [job for job in jobs if job is not None and job.state is State.COMPLETED]
    payloads = await _events_at({job.life for job in slim if _lacks_payload(job)}, read)
    results: dict[int, Completed] = {}
    sought = [job for job in slim if job.result is ABSENT and job.result_key is None]
    for back in range(1, max((len(job.trail) for job in sought), default=0) + 1):
        # The completion is the last transition, unless the job was archived since.
        sought = [job for job in sought if job.life not in results and back <= len(job.trail)]
        found = await _events_at({job.trail[-back] for job in sought}, read)
        for event in found.values():
            if isinstance(event, Completed):
                results[event.life] = event
    return [job and _filled(job, payloads.get(job.life), results.get(job.life)) for job in jobs]


def _lacks_payload(job: Job) -> bool:
    return job.payload is ABSENT and job.payload_key is None


def _filled(job: Job, enqueued: Event | None, completed: Completed | None) -> Job:
    if enqueued is None and completed is None:
        return job
    whole = copy(job)
    if isinstance(enqueued, Enqueued):
        whole.payload = enqueued.payload
    if completed is not None:
        whole.result = completed.result
    return whole


async def _events_at(positions: set[int], read: Read) -> dict[int, Event]:
    """The events at these positions, as far as the log still has them."""
    found: dict[int, Event] = {}
    for commit in sorted({commit_of(position) for position in positions}):
        try:
            events = await read(commit)
        except Gap:
            continue
        found.update((event.position, event) for event in events if event.position in positions)
    return found


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
        totals=_named(totals),
        pending=counts.live(State.PENDING) + unadmitted,
        scheduled=scheduled,
        running=counts.live(State.RUNNING),
        paused=queue in tenancy.paused,
        oldest_ready_at=min(waiting, default=None),
        unadmitted=unadmitted,
    )


def _named(totals: dict[State, int]) -> dict[str, int]:
    """By the plain names of the states, for people and JSON; those without jobs are left out."""
    return {state.value: totals[state] for state in State if totals.get(state)}
