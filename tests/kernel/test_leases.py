"""The index of leases survives batches that are taken back."""

from __future__ import annotations

from msgspec.structs import replace

from penstock.kernel.batch import Batch
from penstock.kernel.commands import Claim, Enqueue, Expire, Submission
from penstock.kernel.job import ABSENT
from penstock.kernel.leases import Leases
from penstock.kernel.state import QueueState


def test_leases_that_expired_in_a_batch_that_was_taken_back_expire_once_in_the_next() -> None:
    state = QueueState()
    first = decided(state, 0.0, 1)
    first.run(Enqueue("t", [Submission("a", "resize", ABSENT), Submission("b", "resize", ABSENT)]))
    first.run(Claim("t", "operation", 2, 30.0, None, None, "w"))
    state.settle()
    lost = decided(state, 100.0, 2)
    assert not lost.events, "nothing was asked for yet"
    assert lost.run(Expire("t")) == 2
    assert len(lost.events) == 2
    state.rollback()
    again = decided(state, 101.0, 2)
    again.run(Expire("t"))
    assert sorted(event.event for event in again.events) == ["expired", "expired"]


def test_a_lease_runs_out_in_time_though_another_of_its_claim_was_moved_on_before_it() -> None:
    """As when a state is read back, in whatever order its jobs come."""
    state = QueueState()
    batch = decided(state, 0.0, 1)
    batch.run(Enqueue("t", [Submission("a", "resize", ABSENT), Submission("b", "resize", ABSENT)]))
    moved_on, other = batch.run(Claim("t", "operation", 2, 30.0, None, None, "w"))
    leases = Leases()
    leases.add(replace(moved_on, lease_until=60.0))
    leases.add(other)
    assert leases.next_until() == 30.0
    assert [job.id for job in leases.run_out(30.0)] == [other.id]
    assert [job.id for job in leases.run_out(60.0)] == [other.id, moved_on.id]


def decided(state: QueueState, at: float, commit: int) -> Batch:
    state.begin()
    return Batch(state, at, commit, lambda: 0.5)
