"""Lanes and their boards against a sorted list, and what they look at for one claim."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engines.ledger.counting import add_up, count
from penstock.kernel import lanes as kernel_lanes
from penstock.kernel.job import ABSENT, Job
from penstock.kernel.lanes import Lane, Lanes
from penstock.kernel.order import Ranking
from penstock.testing.factories import a_job
from tests.kernel.scripts import Kernel

QUEUES, TYPES = ("a", "b", "c"), ("s", "t")
LANES_MANY = 20_000
STEPS_MAX = 100
"""Far above the logarithm of so many lanes, and far below their number."""

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(
            st.just("push"), st.integers(0, 30), st.sampled_from(QUEUES), st.sampled_from(TYPES),
            st.integers(0, 1), st.integers(0, 5),
        ),
        st.tuples(st.just("die"), st.integers(0, 30)),
        st.tuples(st.just("take"), st.integers(1, 4), st.sampled_from([None, ["a"], ["b", "c"]])),
        st.tuples(st.sampled_from(["pause", "resume"]), st.sampled_from(QUEUES)),
    ),
    max_size=200,
)  # fmt: skip
ASKED = [
    (None, None), (["a"], None), (["b", "c", "b"], None), (None, ["s"]), (None, ["t", "s"]),
    (["a"], ["s"]), (["c", "a"], ["t", "s"]), (["nobody"], None),
]  # fmt: skip


class Floor:
    """The lanes, and the plain truth beside them."""

    def __init__(self) -> None:
        self.current: dict[str, Job] = {}
        self.lanes = Lanes(lambda job: self.current.get(job.id) is job)

    def push(self, number: int, queue: str, type: str, priority: int, run_at: float) -> None:
        self.die(number)
        job = copy(a_job(id=str(number), payload=ABSENT, result=ABSENT))
        job.queue, job.type, job.priority = queue, type, priority
        job.run_at, job.life, job.source, job.row = run_at, number + 1, 0, 0
        self.current[job.id] = job
        self.lanes.push(job)

    def die(self, number: int) -> None:
        job = self.current.pop(str(number), None)
        if job is not None:
            self.lanes.note_death(job)

    def take(self, count: int, queues: list[str] | None) -> None:
        for entry in list(islice(self.lanes.in_order(queues, None), count)):
            self.die(int(entry[-1].id))

    def pause(self, queue: str) -> None:
        self.lanes.pause(queue)

    def resume(self, queue: str) -> None:
        self.lanes.resume(queue)

    def expected(self, queues: list[str] | None, types: list[str] | None) -> list[Job]:
        ready = (
            job
            for job in self.current.values()
            if (queues is None or job.queue in queues)
            and (types is None or job.type in types)
            and job.queue not in self.lanes.paused
        )
        return sorted(ready, key=lambda job: (job.priority, job.run_at, job.life))


@given(OPERATIONS)
def test_any_claim_finds_what_it_asks_for_in_one_global_order(
    operations: list[tuple[Any, ...]],
) -> None:
    floor = Floor()
    for name, *arguments in operations:
        getattr(floor, name)(*arguments)
    for queues, types in ASKED:
        expected = floor.expected(queues, types)
        assert [entry[-1] for entry in floor.lanes.in_order(queues, types)] == expected
        heads = {id(entry[-1]) for entry in floor.lanes.heads(queues, types)}
        assert heads <= {id(job) for job in expected}
        assert bool(heads) == bool(expected)


@given(OPERATIONS)
def test_a_lane_and_its_boards_are_let_go_when_nothing_is_in_them(
    operations: list[tuple[Any, ...]],
) -> None:
    floor = Floor()
    for name, *arguments in operations:
        getattr(floor, name)(*arguments)
    assert {lane.name for lane in floor.lanes} == {
        (job.queue, job.type, job.priority) for job in floor.current.values()
    }
    for number in range(31):
        floor.die(number)
    assert len(floor.lanes) == 0
    assert floor.lanes._boards == {}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a claim does: each move in a heap of lanes, and each lane that it opens."""
    taken: list[str] = []
    for name in ("heappop", "heappush", "heapreplace"):
        real = getattr(kernel_lanes, name)

        def counted(*arguments: Any, name: str = name, real: Any = real) -> Any:
            taken.append(name)
            return real(*arguments)

        monkeypatch.setattr(kernel_lanes, name, counted)
    in_order = Lane.in_order

    def opened(lane: Lane) -> Iterator[Any]:
        taken.append("opened")
        return in_order(lane)

    monkeypatch.setattr(Lane, "in_order", opened)
    return taken


@pytest.fixture(scope="module")
def crowd() -> Floor:
    """One job in each of very many queues, of very many types, one after the other."""
    floor = Floor()
    for number in range(LANES_MANY):
        floor.push(number, f"queue {number}", f"type {number % 1_000}", 0, float(number))
    return floor


@pytest.mark.parametrize(
    ("queues", "types", "number"),
    [
        (None, None, 0),
        (["queue 700"], None, 700),
        (None, ["type 5"], 5),
        (["queue 9"], ["type 9", "type 8"], 9),
    ],
)
def test_a_claim_does_not_look_at_lanes_that_can_not_be_next(
    crowd: Floor,
    steps: list[str],
    queues: list[str] | None,
    types: list[str] | None,
    number: int,
) -> None:
    entry = next(crowd.lanes.in_order(queues, types))
    assert entry[-1].id == str(number)
    assert len(steps) <= STEPS_MAX
    assert steps.count("opened") == 1


def test_taking_from_one_lane_after_the_other_stays_logarithmic(steps: list[str]) -> None:
    floor = Floor()
    for number in range(2_000):
        floor.push(number, f"queue {number % 500}", "t", 0, float(number))
    for number in range(2_000):
        steps.clear()
        assert next(floor.lanes.in_order(None, ["t"]))[-1].id == str(number)
        assert len(steps) <= STEPS_MAX
        floor.die(number)


def test_paused_queues_are_not_in_the_way(steps: list[str]) -> None:
    floor = Floor()
    for number in range(2_000):
        floor.push(number, f"queue {number}", "t", 0, float(number))
        if number < 1_999:
            floor.pause(f"queue {number}")
    steps.clear()
    assert next(floor.lanes.in_order(None, None))[-1].id == "1999"
    assert next(floor.lanes.in_order(None, ["t"]))[-1].id == "1999"
    assert len(steps) <= STEPS_MAX


def test_jobs_of_other_types_ahead_are_not_looked_at(steps: list[str]) -> None:
    floor = Floor()
    for number in range(5_000):
        floor.push(number, "a", "s", 0, float(number))
    floor.push(5_000, "a", "t", 9, 5_000.0)
    steps.clear()
    assert next(floor.lanes.in_order(None, ["t"]))[-1].type == "t"
    assert next(floor.lanes.in_order(["a"], ["t"]))[-1].type == "t"
    assert len(steps) <= STEPS_MAX


def test_counting_looks_at_the_heads_of_lanes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    for number in range(50):
        delay = 60.0 if number % 5 == 0 else 0.0
        fields = {"id": str(number), "type": "s", "queue": "x", "delay_seconds": delay}
        kernel.commit(1, [("enqueue", ("a", fields))])

    def walked(_: Ranking) -> Iterator[Any]:
        raise AssertionError("somebody walks over all jobs to count them")

    monkeypatch.setattr(Ranking, "unordered", walked)
    monkeypatch.setattr(Ranking, "in_order", walked)
    [queue] = add_up(count(kernel.state, "a", 0, kernel.at, None)).queues
    oldest = kernel.state.tenants["a"].jobs["1"].run_at
    assert (queue.pending, queue.scheduled, queue.oldest_ready_at) == (50, 10, oldest)


def test_a_side_object_that_leaves_does_not_copy_the_table() -> None:
    kernel = Kernel()
    table = kernel.state.released
    kernel.state.begin()
    kernel.state._release("data/one", 1.0)
    assert kernel.state.released is table
    kernel.state.rollback()
    assert table == {}
