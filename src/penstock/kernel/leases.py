"""The leases that are out: by claim, and by when they run out.

All jobs of one claim begin with the same `lease_until`, and most end before it. So the heap has one
entry per claim and not per job: a time before which none of its leases runs out. Heartbeats only
move leases on, which leaves such a bound true; it is made exact when its time has come.
"""

from __future__ import annotations

from heapq import heappop, heappush

from penstock.kernel.job import Job


class Leases:
    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], dict[str, Job]] = {}
        """Running jobs by (tenant, operation) of their claim, then by id."""
        self._bounds: list[tuple[float, tuple[str, str]]] = []
        self._bounded: set[tuple[str, str]] = set()
        """Claims that have a bound; one that ended and came back keeps the bound it had."""

    def __len__(self) -> int:
        return sum(map(len, self._claims.values()))

    def add(self, job: Job) -> None:
        assert job.lease is not None
        assert job.lease_until is not None
        claim = (job.tenant, job.lease.secret)
        jobs = self._claims.get(claim)
        if jobs is None:
            self._claims[claim] = {job.id: job}
            if claim not in self._bounded:
                self._bounded.add(claim)
                heappush(self._bounds, (job.lease_until, claim))
        else:
            jobs[job.id] = job

    def remove(self, job: Job) -> None:
        assert job.lease is not None
        claim = (job.tenant, job.lease.secret)
        jobs = self._claims[claim]
        del jobs[job.id]
        if not jobs:
            del self._claims[claim]

    def of_claim(self, tenant: str, operation: str) -> list[Job]:
        """What a claim still holds, in the order in which it was given."""
        jobs = self._claims.get((tenant, operation), {}).values()
        return sorted(jobs, key=lambda job: job.trail[-1])

    def next_until(self) -> float | None:
        """When the next lease runs out, at the earliest."""
        self._drop_ended()
        return self._bounds[0][0] if self._bounds else None

    def run_out(self, at: float) -> list[Job]:
        """The jobs whose leases have run out by then, first to last."""
        dead: list[Job] = []
        checked: list[tuple[float, tuple[str, str]]] = []
        self._drop_ended()
        while self._bounds and self._bounds[0][0] <= at:
            _, claim = heappop(self._bounds)
            jobs = self._claims[claim].values()
            dead += [job for job in jobs if _until(job) <= at]
            checked.append((min(map(_until, jobs)), claim))
            self._drop_ended()
        # Those found dead stay until somebody ends them: looking changes nothing.
        for bound in checked:
            heappush(self._bounds, bound)
        return sorted(dead, key=lambda job: (_until(job), job.life))

    def _drop_ended(self) -> None:
        while self._bounds and self._bounds[0][1] not in self._claims:
            self._bounded.discard(heappop(self._bounds)[1])


def _until(job: Job) -> float:
    assert job.lease_until is not None
    return job.lease_until
