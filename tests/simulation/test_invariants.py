"""Each invariant bites: a log or history made by hand that breaks it, and one that does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from penstock.kernel import invariants
from penstock.kernel.events import (
    Archived,
    Cancelled,
    Claimed,
    Completed,
    Enqueued,
    Event,
    Expired,
    Extended,
    Failed,
    Paused,
    Released,
    Replayed,
    Resumed,
    Retried,
    position_of,
)
from penstock.kernel.invariants import Call, Committed, Deletion, Stories, Violation
from penstock.kernel.job import Lease, State
from penstock.kernel.settings import DAY_SECONDS
from penstock.kernel.state import QueueState

AT = 1_800_000_000.0
ATTEMPT: dict[str, Any] = {"attempt": 1, "failures": 0, "enqueued_at": AT, "due_at": AT}


class Log:
    """A log in the making: one event a commit unless said otherwise, a second apart."""

    def __init__(self) -> None:
        self.commits: list[Committed] = []

    @property
    def next_position(self) -> int:
        return position_of(len(self.commits) + 1, 0)

    def add(self, event: type[Any], *, id: str = "a", life: int | None = None, **more: Any) -> int:
        position = self.next_position
        fields: dict[str, Any] = {"position": position, "at": self.at, "tenant": "acme"}
        if event not in (Paused, Resumed):
            fields |= {"queue": "q", "type": "t", "id": id}
            fields["life"] = position if life is None else life
        self.commit([event(**{**fields, **more})])
        return position

    @property
    def at(self) -> float:
        return AT + len(self.commits)

    def commit(self, events: Sequence[Event], at: float | None = None) -> None:
        number = len(self.commits) + 1
        previous = str(number - 1) if number > 1 else ""
        time = self.at if at is None else at
        self.commits.append(
            Committed(number, f"id{number}", time, events, previous, str(number), 0, time)
        )

    def enqueue(self, id: str = "a", **more: Any) -> int:
        return self.add(Enqueued, id=id, **{"run_at": self.at, **more})

    def claim(self, life: int, id: str = "a", operation: str = "op", **more: Any) -> int:
        fields = {"attempt": 1, "lease_until": self.at + 30, "enqueued_at": AT, "run_at": AT}
        return self.add(Claimed, id=id, life=life, operation=operation, **{**fields, **more})

    def complete(self, life: int, id: str = "a", **more: Any) -> int:
        return self.add(Completed, id=id, life=life, **{**ATTEMPT, **more})

    def fail(self, life: int, id: str = "a", **more: Any) -> int:
        return self.add(
            Failed,
            id=id,
            life=life,
            **{**ATTEMPT, "failures": 1, "kind": "k", "error": "e", **more},
        )

    def retry(self, life: int, id: str = "a", **more: Any) -> int:
        fields = {**ATTEMPT, "failures": 1, "kind": "k", "error": "e", "run_at": self.at}
        return self.add(Retried, id=id, life=life, **{**fields, **more})


def good_log() -> list[Committed]:
    """A day without trouble: retried, completed, failed, replayed, cancelled."""
    log = Log()
    first = log.enqueue("a", key="k")
    log.claim(first)
    log.add(Extended, life=first, attempt=1, lease_until=log.at + 30)
    log.retry(first)
    log.claim(first, operation="again", attempt=2)
    log.complete(first, attempt=2, failures=1)
    second = log.enqueue("b", key="k", max_attempts=1)
    log.claim(second, "b", operation="other")
    log.fail(second, "b")
    log.add(Replayed, id="b", life=second, run_at=log.at)
    log.add(Cancelled, id="b", life=second, **{**ATTEMPT, "attempt": 1})
    log.add(Paused, queue="q")
    log.add(Resumed, queue="q")
    log.add(Archived, id="b", life=second)
    return log.commits


def claimed_twice(log: Log) -> None:
    life = log.enqueue()
    log.claim(life)
    log.claim(life, operation="thief", attempt=2)


def ended_without_a_lease(log: Log) -> None:
    log.complete(log.enqueue())


def fence_given_twice(log: Log) -> None:
    life = log.enqueue()
    fence = log.claim(life)
    log.add(Released, life=life, run_at=log.at, **ATTEMPT)
    log.claim(life, operation="again", attempt=2, position=fence)


def changed_after_its_end(log: Log) -> None:
    life = log.enqueue()
    log.claim(life)
    log.complete(life)
    log.add(Cancelled, life=life, **ATTEMPT)


def completed_and_replayed(log: Log) -> None:
    life = log.enqueue()
    log.claim(life)
    log.complete(life)
    log.add(Replayed, life=life, run_at=log.at)


def a_zombie_of_an_earlier_life(log: Log) -> None:
    life = log.enqueue()
    log.claim(life)
    log.complete(life)
    log.enqueue()
    log.add(Cancelled, life=life, **ATTEMPT)


def attempts_miscounted(log: Log) -> None:
    log.claim(log.enqueue(), attempt=2)


def started_too_early(log: Log) -> None:
    log.claim(log.enqueue(run_at=AT + 100))


def tried_too_often(log: Log) -> None:
    life = log.enqueue(max_attempts=1)
    log.claim(life)
    log.retry(life)


def expiry_that_counts_nothing(log: Log) -> None:
    life = log.enqueue()
    log.claim(life)
    log.add(Expired, life=life, run_at=log.at, kind="k", error="e", **ATTEMPT)


def one_key_for_two(log: Log) -> None:
    log.enqueue("a", key="k")
    log.enqueue("b", key="k")


def a_key_not_yet_free(log: Log) -> None:
    life = log.enqueue("a", key="k", key_until=AT + 100)
    log.claim(life)
    log.complete(life)
    log.enqueue("b", key="k")


def out_of_turn(log: Log) -> None:
    log.enqueue("a", priority=0)
    log.claim(log.enqueue("b", priority=1), "b")


def last_come_first_served(log: Log) -> None:
    log.enqueue("a")
    log.claim(log.enqueue("b"), "b")


def claimed_while_paused(log: Log) -> None:
    life = log.enqueue()
    log.add(Paused, queue="q")
    log.claim(life)


def a_slot_missing(log: Log) -> None:
    log.enqueue()
    log.enqueue("b")
    log.enqueue("c")
    del log.commits[1]


def time_that_goes_back(log: Log) -> None:
    log.enqueue()
    log.commit([Paused(log.next_position, AT - 1, "acme", "q")], at=AT - 1)


def another_chain(log: Log) -> None:
    log.enqueue()
    log.enqueue("b")
    log.commits[1] = msgspec.structs.replace(log.commits[1], previous="something else")


def a_clock_far_ahead(log: Log) -> None:
    log.enqueue()
    log.commits[0] = msgspec.structs.replace(log.commits[0], stored_at=AT - 100)


def times_are_the_stores(log: Sequence[Committed]) -> list[Violation]:
    return invariants.times_are_the_stores(log, 10.0)


Check = Callable[[Sequence[Committed]], list[Violation]]
BAD_LOGS: dict[Callable[[Log], None], tuple[int, Check]] = {
    claimed_twice: (4, invariants.leases_are_exclusive),
    ended_without_a_lease: (4, invariants.leases_are_exclusive),
    fence_given_twice: (5, invariants.tokens_increase),
    changed_after_its_end: (7, invariants.terminal_is_final),
    completed_and_replayed: (7, invariants.terminal_is_final),
    a_zombie_of_an_earlier_life: (7, invariants.terminal_is_final),
    attempts_miscounted: (9, invariants.attempts_are_counted),
    started_too_early: (9, invariants.attempts_are_counted),
    tried_too_often: (9, invariants.attempts_are_counted),
    expiry_that_counts_nothing: (9, invariants.attempts_are_counted),
    one_key_for_two: (10, invariants.keys_are_unique),
    a_key_not_yet_free: (10, invariants.keys_are_unique),
    out_of_turn: (11, invariants.claims_follow_the_order),
    last_come_first_served: (11, invariants.claims_follow_the_order),
    claimed_while_paused: (12, invariants.pauses_hold),
    a_slot_missing: (15, invariants.log_is_a_chain),
    time_that_goes_back: (15, invariants.log_is_a_chain),
    another_chain: (15, invariants.log_is_a_chain),
    a_clock_far_ahead: (15, times_are_the_stores),
}


@pytest.mark.parametrize("spoil", BAD_LOGS, ids=lambda spoil: spoil.__name__)
def test_a_bad_log_is_seen(spoil: Callable[[Log], None]) -> None:
    number, check = BAD_LOGS[spoil]
    log = Log()
    spoil(log)
    assert {violation.invariant for violation in check(log.commits)} == {number}


@pytest.mark.parametrize("check", dict.fromkeys(c for _, c in BAD_LOGS.values()))
def test_a_good_log_is_left_alone(check: Check) -> None:
    assert check(good_log()) == []


def test_a_key_is_free_by_a_clock_that_is_further_on_than_its_window_is_long() -> None:
    """In layout `tasks`: a day ahead when it is taken and when it is wanted, not in between."""
    log = Log()
    a_key_not_yet_free(log)
    assert invariants.keys_are_unique(log.commits)
    *first, ended, wanted = log.commits
    noted = msgspec.structs.replace(ended, clock=ended.at - DAY_SECONDS)
    assert not invariants.keys_are_unique([*first, noted, wanted])
    also_noted = msgspec.structs.replace(wanted, clock=wanted.at - DAY_SECONDS)
    assert invariants.keys_are_unique([*first, noted, also_noted])


def test_claims_across_queues_are_compared_where_it_is_known_what_was_asked() -> None:
    log = Log()
    log.add(Enqueued, id="a", run_at=log.at, queue="other")
    log.claim(log.enqueue("b", priority=1), "b")
    assert not invariants.claims_follow_the_order(log.commits)
    assert invariants.claims_follow_the_order(log.commits, {"op": None})
    assert not invariants.claims_follow_the_order(log.commits, {"op": ("q",)})


def call(kind: str, **more: Any) -> Call:
    fields: dict[str, Any] = {
        "client": "c", "tenant": "acme", "operation": "op", "asked": 0, "asked_at": AT,
        "id": "a", "answered": 99, "answered_at": AT + 99,
    }  # fmt: skip
    return Call(kind=kind, **{**fields, **more})


def never(event: Event, at: float) -> bool:
    return False


def one_job() -> tuple[Log, int, int]:
    """A job that was enqueued, claimed and completed; its life and fence."""
    log = Log()
    life = log.enqueue()
    fence = log.claim(life)
    log.complete(life)
    return log, life, fence


def test_an_acknowledged_job_that_is_not_in_the_log_is_seen() -> None:
    stories = Stories(one_job()[0].commits)
    told = [call("enqueue", answer="queued", answer_id="a")]
    lost = [call("enqueue", answer="queued", answer_id="z", id="z")]
    assert not invariants.told_is_durable(stories, told)
    assert [one.invariant for one in invariants.told_is_durable(stories, lost)] == [1]


def test_a_job_from_nowhere_is_seen() -> None:
    stories = Stories(one_job()[0].commits)
    assert not invariants.jobs_were_asked_for(stories, [call("enqueue")])
    assert [one.invariant for one in invariants.jobs_were_asked_for(stories, [])] == [2]


def test_one_enqueue_that_made_two_jobs_is_seen() -> None:
    log, _, _ = one_job()
    log.enqueue()
    asked = [call("enqueue", answer="queued", answer_id="a"), call("claim", count=1)]
    found = invariants.operations_happen_once(Stories(log.commits), asked, never)
    assert [one.invariant for one in found] == [3]
    # A caller who asks again after the job has left is another matter.
    asked.append(asked[0])
    assert not invariants.operations_happen_once(
        Stories(log.commits), asked, lambda event, at: True
    )


def test_one_operation_that_began_two_lives_is_seen() -> None:
    log = Log()
    log.fail(log.enqueue(operation="op"))
    log.enqueue(operation="other")
    asked = [call("enqueue"), call("enqueue", operation="other")]
    assert not invariants.operations_happen_once(Stories(log.commits), asked, never)
    assert not invariants.jobs_were_asked_for(Stories(log.commits), asked)
    nobody = invariants.jobs_were_asked_for(Stories(log.commits), asked[:1])
    assert [one.invariant for one in nobody] == [2]
    log.enqueue(operation="op")
    found = invariants.operations_happen_once(Stories(log.commits), asked, never)
    assert [one.invariant for one in found] == [3]
    assert not invariants.operations_happen_once(
        Stories(log.commits), asked, lambda event, at: True
    )


def test_an_enqueue_that_is_called_anothers_is_seen() -> None:
    stories = Stories(one_job()[0].commits)
    asked = [call("enqueue", answer="duplicate", answer_id="a"), call("claim", count=1)]
    assert [one.invariant for one in invariants.operations_happen_once(stories, asked, never)] == [
        3
    ]


def test_what_was_refused_for_certain_and_happened_is_seen() -> None:
    stories = Stories(one_job()[0].commits)
    asked = [
        call("enqueue", answer="StoreUnavailable", is_error=True, is_certain=True),
        call("claim", count=1),
    ]
    assert [one.invariant for one in invariants.operations_happen_once(stories, asked, never)] == [
        3
    ]


def test_one_claim_that_was_granted_twice_is_seen() -> None:
    log = Log()
    log.claim(log.enqueue("a"), "a")
    log.claim(log.enqueue("b"), "b")
    asked = [call("enqueue"), call("enqueue", id="b"), call("claim", count=2)]
    found = invariants.operations_happen_once(Stories(log.commits), asked, never)
    assert [one.invariant for one in found] == [3]


def test_a_lease_that_nobody_holds_is_seen() -> None:
    held = Log()
    life = held.enqueue()
    held.claim(life)
    returned, run_out = Log(), Log()
    for log in (returned, run_out):
        log.claim(log.enqueue())
    returned.add(Released, life=life, run_at=held.at, **ATTEMPT)
    run_out.add(Expired, life=life, run_at=held.at, kind="k", error="e", **ATTEMPT)
    left = [call("claim", count=1, answer="left", is_error=True)]
    check = invariants.leases_are_given_back
    assert not check(Stories(returned.commits), left)
    assert not check(Stories(held.commits), [call("claim", count=1)])
    assert [one.invariant for one in check(Stories(held.commits), left)] == [19]
    assert [one.invariant for one in check(Stories(run_out.commits), left)] == [19]


def test_an_ack_with_an_old_token_is_seen() -> None:
    log = Log()
    life = log.enqueue()
    old = log.claim(life)
    log.add(Released, life=life, run_at=log.at, **ATTEMPT)
    new = log.claim(life, operation="new", attempt=2)
    log.complete(life, attempt=2)
    stories = Stories(log.commits)
    right, wrong = call("ack", lease=Lease(new, "new")), call("ack", lease=Lease(old, "op"))
    guessed = call("ack", lease=Lease(new, "guessed"))
    check = invariants.only_the_current_token_counts
    assert not check(stories, [right])
    assert [one.invariant for one in check(stories, [right, wrong])] == [6]
    assert [one.invariant for one in check(stories, [right, guessed])] == [5]


def test_a_completion_that_nobody_asked_for_is_seen() -> None:
    stories = Stories(one_job()[0].commits)
    assert [one.invariant for one in invariants.only_the_current_token_counts(stories, [])] == [5]


@pytest.mark.parametrize(
    ("answer", "is_right"),
    [("completed", True), ("cancelled", False), ("failed", False), ("not_found", False)],
)
def test_cancel_says_what_it_met(answer: str, is_right: bool) -> None:
    stories = Stories(one_job()[0].commits)
    asked = [call("cancel", answer=answer, asked=1, answered=3)]
    if answer == "not_found":
        asked[0].answered = 2  # while it was live it can't be overlooked
    assert (not invariants.cancel_wins(stories, asked)) == is_right


def test_a_read_from_the_past_is_seen() -> None:
    stories = Stories(one_job()[0].commits)
    fresh, stale = call("get", answer="completed", asked=3), call("get", answer="running", asked=3)
    blind = call("get", answer="", asked=3)
    assert not invariants.reads_are_fresh(stories, [fresh], never)
    for wrong in (stale, blind):
        assert [one.invariant for one in invariants.reads_are_fresh(stories, [wrong], never)] == [
            16
        ]
    assert not invariants.reads_are_fresh(stories, [blind], lambda event, at: True)


def test_a_result_of_a_losing_attempt_is_seen() -> None:
    log, _, fence = one_job()
    seen = [call("get", answer="completed", asked=3, fence=fence)]
    assert not invariants.reads_are_fresh(Stories(log.commits), seen, never)
    seen[0].fence = fence + 1
    assert invariants.reads_are_fresh(Stories(log.commits), seen, never)


def test_a_follower_with_a_gap_is_seen() -> None:
    log = good_log()
    events = [event for commit in log for event in commit.events]
    check = invariants.followers_see_everything
    assert not check(log, None, 0, events)
    assert not check(log, "acme", events[2].position, events[3:])
    for wrong in (events[1:], events[:-1], [*events[:3], *events[4:]], [*events, events[-1]]):
        assert [one.invariant for one in check(log, None, 0, wrong)] == [16]


def test_a_miscounted_state_is_seen() -> None:
    log, state = good_log(), QueueState()
    for commit in log:
        state.fold(commit.at, commit.events)
    assert not invariants.counts_are_conserved(log, state)
    counts = state.tenants["acme"].queue_counts("q").now
    counts[State.COMPLETED] = counts.get(State.COMPLETED, 0) + 1
    assert [one.invariant for one in invariants.counts_are_conserved(log, state)] == [14]


def test_a_checkpoint_that_is_no_fold_is_seen() -> None:
    assert not invariants.checkpoints_are_folds([(3, b"state")], {3: b"state"})
    assert invariants.checkpoints_are_folds([(3, b"state")], {3: b"another"})


@pytest.mark.parametrize(
    ("deletion", "is_right"),
    [
        (Deletion(3, floor=5, checkpoints=(4, 8)), True),
        (Deletion(5, floor=5, checkpoints=(8,)), False),
        (Deletion(3, floor=5, checkpoints=()), False),
        (Deletion(3, floor=5, checkpoints=(2,)), False),
    ],
)
def test_a_deletion_that_nothing_covers_is_seen(deletion: Deletion, is_right: bool) -> None:
    assert (not invariants.deletions_are_covered([deletion])) == is_right


def test_a_job_that_never_ends_is_seen() -> None:
    log, _, _ = one_job()
    assert not invariants.everything_ended(Stories(log.commits))
    log.enqueue("b")
    assert [one.id for one in invariants.everything_ended(Stories(log.commits))] == ["b"]


def test_an_idle_worker_with_a_lease_is_seen() -> None:
    log = Log()
    log.claim(log.enqueue(), worker="w")
    assert not invariants.attempts_have_workers(Stories(log.commits), ["another"])
    assert invariants.attempts_have_workers(Stories(log.commits), ["w"])


def test_backends_that_differ_are_seen() -> None:
    assert not invariants.same_observations("a and b", [1, 2], [1, 2])
    assert invariants.same_observations("a and b", [1, 2], [1, 3])
    assert invariants.same_observations("a and b", [1, 2], [1])


def test_a_value_that_nobody_can_read_is_seen() -> None:
    for bad in (b"{oops", b'"\xff"', b"1e999"):
        log = Log()
        log.add(Enqueued, run_at=AT, payload=msgspec.Raw(b'{"fine": 1}'))
        assert not invariants.values_can_be_read(log.commits, msgspec.json.decode)
        log.add(Enqueued, id="b", run_at=AT, payload=msgspec.Raw(bad))
        [found] = invariants.values_can_be_read(log.commits, msgspec.json.decode)
        assert (found.invariant, found.id) == (20, "b")
