"""Looking at the state: what it has, and whether waiting is over. Nothing here changes it."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from penstock.kernel.departures import Departed
from penstock.kernel.state import QueueState
from penstock.kernel.tenancy import Hold, Tenancy
from penstock.ports.backend import Contents, TenantContents


def contents(state: QueueState, at: float) -> Contents:
    runs = state.imports.runs
    departed: dict[str, list[tuple[str, Departed]]] = {}
    for tenant, id, one in state.departures:
        if state.departed(tenant, id, at) is one:
            departed.setdefault(tenant, []).append((id, one))
    return Contents(
        at=at,
        settings=state.settings,
        tenants=[
            _tenant_contents(state, name, at, sorted(departed.get(name, [])))
            for name in sorted(state.tenants)
        ],
        moves=state.moves,
        runs={run: record.jobs for run, record in runs.items() if record.status == "published"},
        runs_aborted=tuple(run for run, record in runs.items() if record.status == "aborted"),
        queries=dict(state.imports.queries),
    )


def _tenant_contents(
    state: QueueState, name: str, at: float, departed: list[tuple[str, Departed]]
) -> TenantContents:
    tenancy = state.tenants[name]
    unadmitted = sum(segment.unadmitted for segment in state.imports.segments(name))
    held = [
        (scope, hold)
        for scope, hold in sorted(tenancy.keys.items(), key=lambda item: item[0])
        if state.holder(name, scope, at) is hold and not _is_live(tenancy, hold)
    ]
    jobs = len(tenancy.jobs) + unadmitted
    return TenantContents(name, jobs, sorted(tenancy.paused), held, departed)


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
    heads = tenancy.lanes.heads(queues, types)
    return 0.0 if any(head[-1].run_at <= at for head in heads) else due


def _next_due_seconds(state: QueueState, at: float) -> float:
    """How long until a scheduled job comes due or a lease dies; infinite if there is neither."""
    scheduled, lease_until = state.pending.scheduled.first(), state.leases.next_until()
    due_at: float = scheduled[0] if scheduled is not None else inf
    if lease_until is not None:
        due_at = min(due_at, lease_until + state.settings.clock_skew_seconds)
    return due_at - at
