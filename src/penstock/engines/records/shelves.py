"""From a job to its record: which shelf it is on, and where on it.

The only place that knows; a store is told and a record that says otherwise was altered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.errors import Corrupt
from penstock.kernel.job import Job, State
from penstock.ports.backend import Filter
from penstock.ports.records import Record, Shelf, Stored
from penstock.wire.record import decode_job, encode_job

KNOWN_MAX: Final = 4_096
"""More than one worker has under way; whoever claims more decodes some of them again."""
KNOWN_BYTES_MAX: Final = 4_096

_ENDED: Final = {
    State.COMPLETED: Shelf.COMPLETED,
    State.FAILED: Shelf.DEAD,
    State.CANCELLED: Shelf.DEAD,
}


def shelf_of(job: Job) -> Shelf:
    if job.state is State.PENDING:
        return Shelf.PENDING
    if job.state is State.RUNNING:
        return Shelf.RUNNING
    return _ENDED[job.state] if job.archived_at is None else Shelf.ARCHIVED


def record_of(job: Job) -> Record:
    shelf, claim = shelf_of(job), None
    if shelf is Shelf.PENDING:
        at: float | None = job.run_at
    elif shelf is Shelf.RUNNING:
        assert job.lease is not None
        at, claim = job.lease_until, job.lease.secret
    else:
        at = job.archived_at or job.ended_at
    assert at is not None
    return Record(
        job.tenant, job.id, job.life, job.queue, job.type, job.key, job.priority,
        shelf, at, claim, encode_job(job),
    )  # fmt: skip


class Known:
    """Running jobs by their records as they were written here: their end finds them decoded.

    The same bytes are the same job, whoever wrote them and whatever became of the store meanwhile.
    """

    def __init__(self) -> None:
        self._jobs: dict[bytes, Job] = {}

    def note(self, record: Record, job: Job) -> None:
        if record.shelf is not Shelf.RUNNING or len(record.body) > KNOWN_BYTES_MAX:
            return
        self._jobs[record.body] = job
        if len(self._jobs) > KNOWN_MAX:
            del self._jobs[next(iter(self._jobs))]

    def job_in(self, stored: Stored) -> Job:
        """As the function of that name. Each is known once: with its next change it is another."""
        known = self._jobs.pop(stored.body, None)
        if known is None or known.life != stored.life or stored.shelf != Shelf.RUNNING:
            return job_in(stored)
        return known


def job_in(stored: Stored) -> Job:
    """The job of a record; `Corrupt` if the record is not the one that was written for it."""
    job = decode_job(f"the record of life {stored.life}", stored.body)
    if job.life != stored.life or shelf_of(job) != stored.shelf:
        raise Corrupt(f"the record of job {job.id!r}", "its index is that of another job or state")
    return job


def shelves_for(filter: Filter) -> list[Shelf]:
    """Where the jobs that a filter lets through can be."""
    if filter.archived:
        return [Shelf.ARCHIVED]
    if filter.state is None:
        return [shelf for shelf in Shelf if shelf is not Shelf.ARCHIVED]
    found: Callable[[State], Shelf | None] = {
        **_ENDED, State.PENDING: Shelf.PENDING, State.RUNNING: Shelf.RUNNING,
    }.get  # fmt: skip
    shelf = found(filter.state)
    return [] if shelf is None else [shelf]
