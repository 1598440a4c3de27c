"""Rates are what changed between two looks."""

from __future__ import annotations

from penstock.insights.rates import Looks, Rates
from penstock.ports.backend import QueueStats, Stats


def test_the_first_look_has_no_rates() -> None:
    view = Looks().add(look(10.0, completed=5))
    assert view.rates == Rates()
    assert view.completed_per_second == []


def test_rates_are_per_second_since_the_look_before() -> None:
    looks = Looks()
    looks.add(look(10.0, pending=10))
    view = looks.add(look(12.0, pending=4, completed=10, failed=2))
    assert view.rates == Rates(enqueued=3.0, completed=5.0, failed=1.0)
    assert view.queues[0].rates == view.rates
    assert view.completed_per_second == [5.0]


def test_a_replay_is_no_negative_rate() -> None:
    looks = Looks()
    looks.add(look(10.0, failed=5))
    assert looks.add(look(11.0, pending=5)).rates == Rates()


def test_two_looks_at_one_moment_have_no_rates() -> None:
    looks = Looks()
    looks.add(look(10.0))
    assert looks.add(look(10.0, completed=5)).rates == Rates()


def test_a_queue_that_is_new_counts_from_nothing() -> None:
    looks = Looks()
    looks.add(Stats({}, [], 0, 0, 10.0))
    view = looks.add(look(11.0, completed=5))
    assert view.queues[0].rates.completed == 5.0


def test_what_waits_is_what_is_due_and_since_when() -> None:
    stats = QueueStats("q", {"pending": 5}, 5, 2, 0, False, 90.0)
    [queue] = Looks().add(Stats({"pending": 5}, [stats], 5, 1, 100.0)).queues
    assert (queue.ready, queue.waiting_seconds) == (3, 10.0)


def look(at: float, **totals: int) -> Stats:
    queue = QueueStats("q", totals, totals.get("pending", 0), 0, 0, False, None)
    return Stats(totals, [queue], sum(totals.values()), 1, at)
