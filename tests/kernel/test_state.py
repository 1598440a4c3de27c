"""The state is a function of the log: however it was reached, it has the same bytes."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.kernel.job import Job, State
from penstock.kernel.retry import RetryPolicy
from penstock.kernel.segments import Head
from penstock.kernel.state import QueueState
from tests.kernel.scripts import Kernel, Script, Step, folded, live, restored, scripts, steps

GENTLE = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@GENTLE
@given(script=scripts(), where=st.floats(0, 1))
def test_a_checkpoint_and_the_rest_of_the_log_give_what_the_whole_log_gives(
    script: Script, where: float
) -> None:
    kernel, middle = Kernel(), b""
    for number, (seconds, batch) in enumerate(script):
        if number == int(where * len(script)):
            middle, done = kernel.checkpoint(), len(kernel.commits)
        kernel.commit(seconds, batch)
    whole = kernel.checkpoint()
    kernel.state = folded(kernel.commits)
    assert kernel.checkpoint() == whole, "folding the log differs from having written it"
    if middle:
        kernel.state = folded(kernel.commits[done:], restored(middle))
        assert kernel.checkpoint() == whole, "a checkpoint in the middle makes a difference"


@GENTLE
@given(
    script=scripts(15),
    seconds=st.sampled_from([0.0, 31.0, 4000.0]),
    lost=st.lists(steps(), min_size=1, max_size=8),
    sealed=st.booleans(),
    then=scripts(5),
)
def test_a_batch_that_was_rolled_back_leaves_no_trace(
    script: Script, seconds: float, lost: list[Step], sealed: bool, then: Script
) -> None:
    kernel = Kernel()
    kernel.run(script)
    before, leases, answers = kernel.checkpoint(), list(kernel.leases), list(kernel.answers)
    kernel.at += seconds
    kernel.state.begin()
    kernel.decide(lost)
    if sealed:
        kernel.state.seal(kernel.at, ended_before=len(kernel.commits) + 1)
    kernel.state.rollback()
    assert kernel.checkpoint() == before
    # The indexes, too: what happens next is what happens to a state that never saw the batch.
    twin = Kernel()
    twin.state, twin.commits, twin.at = restored(before), list(kernel.commits), kernel.at
    kernel.leases, twin.leases = list(leases), list(leases)
    kernel.answers, twin.answers = list(answers), list(answers)
    kernel._luck, twin._luck = Random(1), Random(1)
    kernel.run(then)
    twin.run(then)
    assert _bytes(kernel.answers) == _bytes(twin.answers)
    assert kernel.checkpoint() == twin.checkpoint()


@GENTLE
@given(script=scripts())
def test_the_counters_count_what_is_there(script: Script) -> None:
    kernel = Kernel()
    for seconds, batch in script:
        kernel.commit(seconds, batch)
        for tenancy in kernel.state.tenants.values():
            for queue, counts in tenancy.counts.items():
                for state in State:
                    jobs = [
                        j for j in tenancy.jobs.values() if (j.queue, j.state) == (queue, state)
                    ]
                    assert counts.live(state) == len(jobs)


@GENTLE
@given(script=scripts())
def test_every_pending_job_is_in_one_index_and_every_key_has_one_holder(script: Script) -> None:
    kernel = Kernel()
    kernel.run(script)
    state = kernel.state
    waiting = [entry[-1] for entry in state.pending.scheduled.unordered()]
    for tenancy in state.tenants.values():
        for lane in tenancy.lanes:
            waiting += [entry[-1] for entry in lane.unordered()]
        held = {hold.life for hold in tenancy.keys.values()}
        keyed = [j for j in tenancy.jobs.values() if j.key is not None and not j.is_terminal]
        assert {job.life for job in keyed} <= held
    pending = [job.life for job in live(state) if job.state is State.PENDING]
    assert sorted(job.life for job in waiting if isinstance(job, Job)) == sorted(pending)
    heads = [head.segment for head in waiting if isinstance(head, Head)]
    assert len(heads) == len(set(heads))
    assert set(heads) == set(state.imports.segments())
    assert len(state.leases) == sum(job.state is State.RUNNING for job in live(state))


def test_nothing_grows_with_what_has_ended() -> None:
    kernel = Kernel()
    kernel.commit(0, [("configure", {"result_ttl_seconds": 10.0})])
    sizes = []
    for round in range(300):
        fields = {"id": f"job {round}", "type": "s", "queue": "x"}
        kernel.commit(1, [("enqueue", ("a", fields)), ("claim", ("a", 1, None))])
        kernel.commit(0, [("beat", (0, 30.0)), ("beat", (0, 40.0)), ("ack", (0, 200))])
        sizes.append(_entries(kernel.state))
    assert max(sizes[-100:]) <= max(sizes[100:200]), "something is never let go"
    assert max(sizes) < 400


def test_heartbeats_do_not_pile_up() -> None:
    kernel = Kernel()
    kernel.commit(0, [("enqueue", ("a", {"id": "job", "type": "s", "queue": "x"}))])
    kernel.commit(0, [("claim", ("a", 1, None))])
    for _ in range(500):
        kernel.commit(0.01, [("beat", (0, 30.0))])
    assert _entries(kernel.state) <= 70


def test_two_batches_can_not_be_open_at_once() -> None:
    state = QueueState()
    state.begin()
    with pytest.raises(AssertionError, match="one batch"):
        state.begin()


def test_an_overdue_policy_can_not_stop_the_queue() -> None:
    """A job whose backoff overflows would otherwise break every batch that expires it."""
    kernel = Kernel()
    policy = RetryPolicy(multiplier=1e300)
    fields = {"id": "job", "type": "s", "queue": "x", "max_attempts": 9, "retry": policy}
    kernel.commit(0, [("enqueue", ("a", fields))])
    for _ in range(4):
        kernel.commit(100, [("claim", ("a", 1, None))])
        kernel.commit(100, [("expire", None)])
    assert kernel.state.tenants["a"].jobs["job"].failures == 4


def _bytes(answers: list[Any]) -> bytes:
    return msgspec.json.encode(answers, enc_hook=repr)


def _entries(state: QueueState) -> int:
    """How many entries all indexes have together."""
    scheduled = state.pending.scheduled
    kept = state.retention
    rankings = [scheduled, kept.completed, kept.dead_letters, kept.archived, kept.results]
    for tenancy in state.tenants.values():
        rankings += tenancy.lanes
    return sum(len(ranking._heap) for ranking in rankings) + len(state.leases._bounds)
