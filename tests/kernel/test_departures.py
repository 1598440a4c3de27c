"""What is remembered of jobs that left: for a while, of so many, and the same in every process."""

from __future__ import annotations

import pytest

from penstock.kernel import departures as module
from penstock.kernel.departures import Departed, Departures

KNOWN_MAX = 5


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_MAX", KNOWN_MAX)


def left(numbers: range, until: float = 600.0) -> Departures:
    departures = Departures()
    for number in numbers:
        departures.remember("t", str(number), Departed(until + number))
    return departures


def known(departures: Departures) -> list[str]:
    return sorted(id for _, id, _ in departures)


def test_of_more_than_can_be_remembered_those_that_left_first_are_forgotten() -> None:
    departures = left(range(8))
    departures.forget(0.0)
    assert known(departures) == ["3", "4", "5", "6", "7"]


def test_one_that_came_back_and_left_again_counts_as_the_last() -> None:
    departures = left(range(6))
    departures.remember("t", "0", Departed(900.0))
    departures.forget(0.0)
    assert known(departures) == ["0", "2", "3", "4", "5"]


def test_what_was_forgotten_in_a_batch_that_is_taken_back_is_known_again() -> None:
    departures = left(range(5))
    departures.begin()
    departures.remember("t", "5", Departed(700.0))
    departures.forget(0.0)
    assert known(departures) == ["1", "2", "3", "4", "5"]
    departures.rollback()
    assert known(departures) == ["0", "1", "2", "3", "4"]


def test_who_read_a_snapshot_forgets_the_same_as_who_was_there() -> None:
    there = left(range(5))
    for until in (650.0, 601.5, 700.0):
        there.remember("t", "0", Departed(until))
    read = Departures()
    for tenant, id, departed in there:
        read.remember(tenant, id, departed)
    for departures in (there, read):
        departures.remember("t", "5", Departed(605.0))
        departures.remember("t", "6", Departed(606.0))
        departures.forget(0.0)
    assert known(there) == known(read) == ["0", "3", "4", "5", "6"]


def test_an_id_that_comes_and_goes_takes_no_more_room_each_time() -> None:
    departures = Departures()
    for number in range(1_000):
        departures.remember("t", "same", Departed(600.0 + number))
        departures.forget(0.0)
    assert len(departures._expiries) < 100
    assert departures.find("t", "same", 1_500.0) is not None
