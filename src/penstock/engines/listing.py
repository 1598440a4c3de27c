"""Jobs and counts as every engine shows them."""

from __future__ import annotations

from penstock.kernel.job import Job, State
from penstock.kernel.state import QueueState
from penstock.ports.backend import Filter


def listing(state: QueueState, tenant: str, filter: Filter, at: float) -> list[Job]:
    tenancy = state.tenants.get(tenant)
    if tenancy is None:
        return []
    jobs = [job for job in tenancy.jobs.values() if filter.matches(job)]
    found = [state.look(tenant, job.id, at) for job in jobs]
    return sorted([job for job in found if job is not None], key=lambda job: job.life)


def named(totals: dict[State, int]) -> dict[str, int]:
    """By the plain names of the states, for people and JSON; 0 where no job is in one."""
    return {state.value: totals.get(state, 0) for state in State}
