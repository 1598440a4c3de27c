"""The ranking against a sorted list, and the size of what it keeps."""

from __future__ import annotations

from copy import copy
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.job import ABSENT, Job
from penstock.kernel.order import Ranking
from penstock.testing.factories import a_job

Operation = tuple[str, int, int]
OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["push", "push", "change", "remove", "pop"]),
        st.integers(0, 30),
        st.integers(0, 5),
    ),
    max_size=300,
)


class Shelf:
    """Jobs by number with a rank each: the ranking, and the plain truth beside it."""

    def __init__(self) -> None:
        self.current: dict[str, Job] = {}
        self.ranks: dict[str, tuple[int, int]] = {}
        self.popped: set[str] = set()
        self.ranking = Ranking(lambda job: self.current.get(job.id) is job)

    def do(self, operation: Operation) -> None:
        name, number, rank = operation
        id = str(number)
        if name == "push":
            self._let_go(id)
            self.current[id] = a_job(id=id, payload=ABSENT, result=ABSENT)
            self._rank(id, rank, number)
        elif name == "change" and id in self.ranks:
            self._let_go(id)
            self.current[id] = copy(a_job(id=id, payload=ABSENT, result=ABSENT))
            self._rank(id, rank, number)
        elif name == "remove":
            self._let_go(id)
        elif name == "pop" and self.ranks:
            entry = self.ranking.pop_first()
            assert entry[:2] == min(self.ranks.values())
            del self.ranks[entry[-1].id]

    def _rank(self, id: str, rank: int, number: int) -> None:
        self.ranks[id] = (rank, number)
        self.ranking.push((rank, number, self.current[id]))

    def _let_go(self, id: str) -> None:
        self.current.pop(id, None)
        if self.ranks.pop(id, None) is not None:
            self.ranking.note_death()


@given(OPERATIONS)
def test_a_ranking_is_a_sorted_list_of_what_is_alive(operations: list[Operation]) -> None:
    shelf = Shelf()
    for operation in operations:
        shelf.do(operation)
        expected = sorted(shelf.ranks.values())
        assert len(shelf.ranking) == len(expected)
        first = shelf.ranking.first()
        assert (first[:2] if first else None) == (expected[0] if expected else None)
    expected = sorted(shelf.ranks.values())
    assert [entry[:2] for entry in shelf.ranking.in_order()] == expected
    assert sorted(entry[:2] for entry in shelf.ranking.unordered()) == expected
    assert [entry[:2] for entry in islice(shelf.ranking.in_order(), 3)] == expected[:3]


def test_dead_entries_are_at_most_as_many_as_live_ones_and_a_few() -> None:
    shelf = Shelf()
    for round in range(50):
        for number in range(200):
            shelf.do(("push", number, round % 7))
        heap = shelf.ranking._heap
        assert len(heap) <= 2 * 200 + 65
    for number in range(200):
        shelf.do(("remove", number, 0))
    assert len(shelf.ranking) == 0
    assert len(shelf.ranking._heap) <= 65
