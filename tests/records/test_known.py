"""What a process remembers of the records it wrote: what saves work, and nothing that is not so."""

from __future__ import annotations

import pytest

from penstock.engines.records.shelves import KNOWN_BYTES_MAX, KNOWN_MAX, Known, record_of
from penstock.errors import Corrupt
from penstock.kernel.job import Job, Lease, State
from penstock.ports.records import Record, Stored


def running(life: int, payload: bytes = b"1") -> Job:
    job = Job(f"job-{life}", "default", "default", "work", life, 1.0, 1.0)
    job.payload = type(job.payload)(payload)
    job.state, job.lease, job.lease_until = State.RUNNING, Lease(life, "secret"), 60.0
    return job


def noted(known: Known, job: Job) -> Record:
    record = record_of(job)
    known.note(record, job)
    return record


def stored(record: Record, life: int | None = None) -> Stored:
    return Stored(record.life if life is None else life, 7, record.shelf, record.body)


def test_what_was_written_here_is_not_decoded_again() -> None:
    known, job = Known(), running(1)
    assert known.job_in(stored(noted(known, job))) is job


def test_what_somebody_else_wrote_is_decoded() -> None:
    known, job = Known(), running(1)
    noted(known, job)
    other = record_of(running(2))
    assert known.job_in(stored(other)) == running(2)


def test_a_record_under_the_life_of_another_is_refused_although_its_bytes_are_known() -> None:
    known = Known()
    record = noted(known, running(1))
    with pytest.raises(Corrupt):
        known.job_in(stored(record, life=2))


def test_the_oldest_are_forgotten_and_the_large_are_not_kept() -> None:
    known, first, large = Known(), running(1), running(2, b'"%s"' % (b"x" * KNOWN_BYTES_MAX))
    oldest, too_large = noted(known, first), noted(known, large)
    for life in range(3, KNOWN_MAX + 3):
        noted(known, running(life))
    for record, job in ((oldest, first), (too_large, large)):
        again = known.job_in(stored(record))
        assert again == job
        assert again is not job
