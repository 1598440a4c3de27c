"""Jobs and counts as every engine shows them."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.kernel.job import Job, State
from penstock.kernel.state import QueueState
from penstock.ports.backend import Filter


def passing(state: QueueState, filter: Filter, jobs: Iterable[Job], at: float) -> list[Job]:
    """Those of a page that a filter lets through, as whoever looks at that time sees them."""
    found = (state.look(job.tenant, job.id, at) for job in jobs if filter.matches(job))
    return [job for job in found if job is not None]


def named(totals: dict[State, int]) -> dict[str, int]:
    """By the plain names of the states, for people and JSON; 0 where no job is in one."""
    return {state.value: totals.get(state, 0) for state in State}
