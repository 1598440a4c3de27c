"""Sweeping side objects: those that nothing refers to any more, and that nobody can publish.

A commit first forbids the publication of everything named before the retention. Only then what no
job needs is deleted; of jobs that have left, their large values stay for the retention.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.engines.consumers import Execute
from penstock.engines.names import DATA
from penstock.kernel.commands import Sweep
from penstock.kernel.decide import named_at
from penstock.kernel.events import SYSTEM_TENANT
from penstock.kernel.state import QueueState
from penstock.ports.store import ObjectStore


async def sweep_data(
    store: ObjectStore, current: Callable[[], QueueState], execute: Execute, horizon: float
) -> int:
    """Deletes what was needed before the horizon and is not since; says how many."""
    # Names have their writer's time, which may be this far ahead of the store's.
    written_before = horizon - current().settings.clock_skew_seconds
    old = [entry.key async for entry in store.list(DATA) if entry.modified_at < written_before]
    if not old:
        return 0
    await execute(Sweep(SYSTEM_TENANT, horizon))
    needed, forbidden_before = needed_data(current()), current().swept_before
    gone = [key for key in old if key not in needed and named_at(key) < forbidden_before]
    for key in gone:
        await store.delete(key)
    return len(gone)


def needed_data(state: QueueState) -> set[str]:
    """What a job refers to, or one that left not long ago."""
    needed = set(state.released)
    for tenancy in state.tenants.values():
        for job in tenancy.jobs.values():
            needed.update(key for key in (job.payload_key, job.result_key) if key is not None)
    return needed
