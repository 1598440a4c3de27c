"""The leases that are out: by claim, and by when they run out.

All jobs of one claim begin with the same `lease_until`, and most end before it. So the heap has one
entry per claim and not per job: a time before which none of its leases runs out. Heartbeats only
move leases on, which leaves such a bound true; it is made exact when its time has come. When a
state is read back the first job of a claim may be one that was moved on: then others lower it.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import chain

from penstock.kernel.job import Job


class Leases:
    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], dict[str, Job]] = {}
        """Running jobs by (tenant, operation) of their claim, then by id."""
        self._bounds: list[tuple[float, tuple[str, str]]] = []
        """A heap; of a claim with several, one counts."""
        self._bounded: dict[tuple[str, str], float] = {}
        """That one. A claim that ended and came back keeps the bound it had."""

    def __len__(self) -> int:
        return sum(map(len, self._claims.values()))

    def __iter__(self) -> Iterator[Job]:
        """All running jobs, in no order."""
        return chain.from_iterable(jobs.values() for jobs in self._claims.values())

    def add(self, job: Job) -> None:
        assert job.lease is not None
        assert job.lease_until is not None
        claim = (job.tenant, job.lease.secret)
        jobs = self._claims.get(claim)
        if jobs is None:
            self._claims[claim] = {job.id: job}
        else:
            jobs[job.id] = job
        bound = self._bounded.get(claim)
        if bound is None or job.lease_until < bound:
            self._bound(claim, job.lease_until)

    def remove(self, job: Job) -> None:
        assert job.lease is not None
        claim = (job.tenant, job.lease.secret)
        jobs = self._claims[claim]
        del jobs[job.id]
        if not jobs:
            del self._claims[claim]

    def of_claim(self, tenant: str, operation: str) -> list[Job]:
        """What a claim still holds, in the order in which it was given."""
        jobs = self._claims.get((tenant, operation))
        return [] if jobs is None else sorted(jobs.values(), key=lambda job: job.trail[-1])

    def next_until(self) -> float | None:
        """When the next lease runs out, at the earliest."""
        self._drop_ended()
        return self._bounds[0][0] if self._bounds else None

    def run_out(self, at: float) -> list[Job]:
        """The jobs whose leases have run out by then, first to last."""
        dead: list[Job] = []
        checked: dict[tuple[str, str], float] = {}
        self._drop_ended()
        while self._bounds and self._bounds[0][0] <= at:
            _, claim = heappop(self._bounds)
            if claim not in checked:
                jobs = self._claims[claim].values()
                dead += [job for job in jobs if _until(job) <= at]
                checked[claim] = min(map(_until, jobs))
            self._drop_ended()
        # Those found dead stay until somebody ends them: looking changes nothing.
        for claim, bound in checked.items():
            self._bound(claim, bound)
        return sorted(dead, key=lambda job: (_until(job), job.life))

    def _bound(self, claim: tuple[str, str], until: float) -> None:
        self._bounded[claim] = until
        heappush(self._bounds, (until, claim))

    def _drop_ended(self) -> None:
        while self._bounds:
            until, claim = self._bounds[0]
            counts = self._bounded.get(claim) == until
            if counts and claim in self._claims:
                return
            heappop(self._bounds)
            if counts:
                del self._bounded[claim]


def seen(job: Job, at: float, clock_skew_seconds: float) -> Job:
    """The job as it is shown to whoever only looks: a dead lease that nobody has recorded shows."""
    if job.lease_until is None or job.lease_until + clock_skew_seconds > at:
        return job
    shown: Job = job.__copy__()  # type: ignore[attr-defined]
    shown.expired = True
    return shown


def _until(job: Job) -> float:
    assert job.lease_until is not None
    return job.lease_until
