"""The index of leases survives batches that are taken back."""

from __future__ import annotations

from penstock.kernel.batch import Batch
from penstock.kernel.commands import Claim, Enqueue, Submission
from penstock.kernel.job import ABSENT
from penstock.kernel.state import QueueState


def test_leases_that_expired_in_a_batch_that_was_taken_back_expire_once_in_the_next() -> None:
    state = QueueState()
    first = decided(state, 0.0, 1)
    first.run(Enqueue("t", [Submission("a", "resize", ABSENT), Submission("b", "resize", ABSENT)]))
    first.run(Claim("t", "operation", 2, 30.0, None, None, "w"))
    state.settle()
    lost = decided(state, 100.0, 2)
    assert len(lost.events) == 2
    state.rollback()
    again = decided(state, 101.0, 2)
    assert sorted(event.event for event in again.events) == ["expired", "expired"]


def decided(state: QueueState, at: float, commit: int) -> Batch:
    state.begin()
    return Batch(state, at, commit, lambda: 0.5)
