"""Looking at the state: counts, and whether waiting is over. Nothing here changes it."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from penstock.engines.listing import named
from penstock.kernel.job import Job, State
from penstock.kernel.state import QueueState
from penstock.kernel.tenancy import QueueCounts, Tenancy
from penstock.ports.backend import QueueStats, Stats


def stats(state: QueueState, tenant: str, commit: int, at: float) -> Stats:
    tenancy = state.tenants.get(tenant)
    if tenancy is None:
        return Stats({}, [], 0, commit, at)
    scheduled = _scheduled_by_queue(state, tenancy)
    # A queue is one that ever had a job or is paused; what was rolled back leaves an empty count.
    known = {name for name, counts in tenancy.counts.items() if any(counts.now.values())}
    names = sorted(known | tenancy.paused)
    queues = [_queue_stats(tenancy, name, scheduled.get(name, 0)) for name in names]
    totals = {
        state: sum(tenancy.counts[name].now[state] for name in tenancy.counts) for state in State
    }
    return Stats(named(totals), queues, len(tenancy.jobs), commit, at)


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
    scheduled, lease_until = state.scheduled.first(), state.leases.next_until()
    due_at: float = scheduled[0] if scheduled is not None else inf
    if lease_until is not None:
        due_at = min(due_at, lease_until + state.settings.clock_skew_seconds)
    return due_at - at


def _scheduled_by_queue(state: QueueState, tenancy: Tenancy) -> dict[str, int]:
    counts: dict[str, int] = {}
    for entry in state.scheduled.unordered():
        job: Job = entry[-1]
        if job.tenant == tenancy.name:
            counts[job.queue] = counts.get(job.queue, 0) + 1
    return counts


def _queue_stats(tenancy: Tenancy, queue: str, scheduled: int) -> QueueStats:
    counts = tenancy.counts.get(queue) or QueueCounts()
    waiting = (
        entry[1] for lane in tenancy.lanes.get(queue, {}).values() for entry in lane.unordered()
    )
    return QueueStats(
        queue=queue,
        totals=named(counts.now),
        pending=counts.live(State.PENDING),
        scheduled=scheduled,
        running=counts.live(State.RUNNING),
        paused=queue in tenancy.paused,
        oldest_ready_at=min(waiting, default=None),
    )
