"""The count of a soak is shown to bite: each broken promise is found, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.soak.judging import Outcome, Statement, judge

JOBS = 3


class Soak:
    """One in which every promise was kept, to be spoiled."""

    def __init__(self) -> None:
        ids = [f"job-{n}" for n in range(JOBS)]
        self.producer = Statement(asked=list(ids), queued=list(ids))
        self.worker = Statement()
        self.other = Statement()
        self.follower = Statement(follows=True)
        self.outcome = Outcome(dict.fromkeys(ids, "completed"), [], is_ordered=True)
        for n, id in enumerate(ids):
            fence = 100 * n + 2
            self.outcome.log += [
                (100 * n + 1, "enqueued", id, 0),
                (fence, "claimed", id, fence),
                (100 * n + 3, "completed", id, 0),
            ]
            self.worker.got.append((id, fence))
            self.worker.done.append((id, fence))
        self.follower.seen = list(self.outcome.log)

    def verdict(self) -> list[str]:
        return judge([self.producer, self.worker, self.other, self.follower], self.outcome)


def lose_a_job(soak: Soak) -> None:
    del soak.outcome.states["job-1"]
    soak.outcome.log = [line for line in soak.outcome.log if line[2] != "job-1"]
    soak.follower.seen = list(soak.outcome.log)
    soak.worker.got.remove(("job-1", 102))
    soak.worker.done.remove(("job-1", 102))


def leave_a_job(soak: Soak) -> None:
    soak.outcome.states["job-1"] = "running"


def double_a_job(soak: Soak) -> None:
    soak.outcome.states["job-1-again"] = "completed"
    soak.outcome.log.append((900, "completed", "job-1-again", 0))
    soak.follower.seen = list(soak.outcome.log)


def list_no_job(soak: Soak) -> None:
    soak.outcome.states.clear()
    soak.outcome.forgets = True


def end_a_job_twice(soak: Soak) -> None:
    soak.outcome.log.append((900, "completed", "job-1", 0))
    soak.follower.seen = list(soak.outcome.log)


def take_an_ack_twice(soak: Soak) -> None:
    soak.other.done.append(("job-1", 102))


def take_an_ack_of_a_zombie(soak: Soak) -> None:
    soak.worker.done[1] = ("job-1", 55)


def give_a_lease_twice(soak: Soak) -> None:
    soak.other.got.append(("job-1", 102))


def give_a_lease_that_nobody_recorded(soak: Soak) -> None:
    soak.other.got.append(("job-1", 777))


def give_a_fence_for_two_jobs(soak: Soak) -> None:
    soak.other.got.append(("job-2", 102))


def claim_what_is_held(soak: Soak) -> None:
    soak.outcome.log.insert(5, (103, "claimed", "job-1", 103))
    soak.follower.seen = list(soak.outcome.log)


def set_a_fence_back(soak: Soak) -> None:
    soak.outcome.log[5:5] = [(103, "released", "job-1", 0), (104, "claimed", "job-1", 90)]
    soak.follower.seen = list(soak.outcome.log)


def skip_an_event(soak: Soak) -> None:
    del soak.follower.seen[4]


def tell_an_event_of_another_past(soak: Soak) -> None:
    soak.follower.seen.append((950, "enqueued", "gone", 0))


def tell_an_event_twice(soak: Soak) -> None:
    soak.follower.seen.append(soak.follower.seen[-1])


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (lose_a_job, "acknowledged and are gone: job-1"),
        (leave_a_job, "did not end: job-1 is running"),
        (double_a_job, "nobody asked for: job-1-again"),
        (list_no_job, "3 jobs of the log that are not listed"),
        (end_a_job_twice, "did not end exactly once: job-1: 2"),
        (take_an_ack_twice, "ack was taken twice: job-1"),
        (take_an_ack_of_a_zombie, "another than the holder: job-1 by 55"),
        (give_a_lease_twice, "given twice: job-1 with 102"),
        (give_a_lease_that_nobody_recorded, "not in the log"),
        (give_a_fence_for_two_jobs, "given for two jobs: 102 for job-1 and job-2"),
        (claim_what_is_held, "held by two: job-1 at 103"),
        (set_a_fence_back, "the fence went back"),
        (skip_an_event, "follower 0 was not told"),
        (tell_an_event_of_another_past, "only follower 0 knows"),
        (tell_an_event_twice, "out of order, or twice"),
    ],
)
def test_a_broken_promise_is_found(spoil: Callable[[Soak], None], found: str) -> None:
    soak = Soak()
    assert soak.verdict() == []
    spoil(soak)
    assert any(found in fault for fault in soak.verdict()), soak.verdict()


def test_only_a_server_that_was_set_back_may_tell_a_follower_of_a_gap_to_count_from() -> None:
    soak = Soak()
    for line in [(7, "enqueued", "of another past", 0)]:
        soak.follower.seen.insert(0, line)
    soak.follower.add({"gap": "start again"})
    for position, event, id, fence in soak.outcome.log:
        soak.follower.add({"saw": [position, event, id, fence]})
    assert soak.verdict() == ["a follower was told: start again"]
    soak.outcome.forgets = True
    assert soak.verdict() == []


def test_a_server_that_was_set_back_may_lose_jobs_but_give_no_lease_twice() -> None:
    soak = Soak()
    lose_a_job(soak)
    soak.outcome.forgets = True
    assert soak.verdict() == []
    give_a_lease_twice(soak)
    soak.worker.got.append(("job-1", 102))
    assert any("given twice" in fault for fault in soak.verdict())
