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
    jobs = [job for job in jobs if state.find(tenant, job.id, at) is not None]
    return sorted(jobs, key=lambda job: job.life)


def named(totals: dict[State, int]) -> dict[str, int]:
    """By the plain names of the states, for people and JSON; those without jobs are left out."""
    return {state.value: totals[state] for state in State if totals.get(state)}
