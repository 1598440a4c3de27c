"""Do the counters of a store of records say what its records do? They are counted anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from penstock.engines.records.views import all_jobs
from penstock.insights.checks import Check
from penstock.insights.findings import SHOWN_MAX, stored
from penstock.insights.wording import counted
from penstock.kernel.job import Job, State
from penstock.ports.counters import Survey
from penstock.ports.records import RecordStore, Shelf

COUNTERS: Final = "counters follow from records"
LOOKS_MAX: Final = 3
"""How often a tenant is counted again whose queue was written to meanwhile."""


async def check_counters(store: RecordStore) -> Check:
    wrong: list[str] = []
    tenants = await store.tenants()
    for tenant in tenants:
        for _ in range(LOOKS_MAX):
            at = (await store.head()).at
            before = await store.survey(tenant, at)
            jobs = await all_jobs(store, tenant, list(Shelf))
            if (await store.survey(tenant, at)).commit == before.commit:
                break
        else:
            return stored(COUNTERS, "skip", "the queue is being written to; ask when it is quiet")
        wrong += [f"{tenant}: {one}" for one in wrong_counters(before, jobs, at)]
    if wrong:
        quoted = "; ".join(wrong[:SHOWN_MAX])
        return stored(COUNTERS, "fail", f"{len(wrong):,} are wrong: {quoted}")
    return stored(COUNTERS, "ok", f"of {counted(len(tenants), 'tenant')}")


def wrong_counters(survey: Survey, jobs: Iterable[Job], at: float) -> Iterator[str]:
    """What a survey says of these jobs, if it is not so."""
    states: Counter[tuple[str, State]] = Counter()
    pending: Counter[tuple[str, str]] = Counter()
    scheduled: Counter[tuple[str, str]] = Counter()
    for job in jobs:
        states[job.queue, job.state] += 1
        if job.state is State.PENDING:
            pending[job.queue, job.type] += 1
            scheduled[job.queue, job.type] += job.run_at > at
    counted = Counter({(one.queue, one.state): one.now - one.left for one in survey.counts})
    waiting = Counter({(one.queue, one.type): one.pending for one in survey.waiting})
    later = Counter({(one.queue, one.type): one.scheduled for one in survey.waiting})
    for what, said, found in (
        ("jobs", counted, states), ("pending", waiting, pending), ("scheduled", later, scheduled),
    ):  # fmt: skip
        for place in sorted({*said, *found}):
            if said[place] != found[place]:
                yield f"{'/'.join(place)} {what}: {said[place]:,}, {found[place]:,} are there"
