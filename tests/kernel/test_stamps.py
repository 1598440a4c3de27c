"""Commit time goes on, whatever clocks do."""

from __future__ import annotations

from itertools import pairwise

import pytest

from penstock.kernel.stamps import THE_BEGINNING, Stamp, next_stamp

DAY = 86_400.0
NOW = 1_800_000_000.0


def test_time_is_the_clock_when_nothing_was_wrong() -> None:
    assert next_stamp(THE_BEGINNING, NOW) == Stamp(NOW, NOW)
    assert next_stamp(Stamp(NOW, NOW), NOW + 10) == Stamp(NOW + 10, NOW + 10)


def test_one_commit_from_a_clock_a_day_ahead_slows_time_and_freezes_nothing() -> None:
    stamp = next_stamp(Stamp(NOW, NOW), NOW + DAY)
    assert stamp.at == NOW + DAY
    stamp = next_stamp(stamp, NOW)
    assert (stamp.at, stamp.ahead_seconds) == (NOW + DAY, DAY)
    later = next_stamp(stamp, NOW + 100)
    assert later.at == pytest.approx(NOW + DAY + 90)


def test_the_distance_goes_away_at_a_tenth_of_what_passes() -> None:
    stamp = Stamp(NOW + 10, NOW)
    for second in range(1, 200):
        stamp = next_stamp(stamp, NOW + second)
    assert stamp == Stamp(NOW + 199, NOW + 199)


def test_writers_whose_clocks_differ_a_little_do_not_make_time_run() -> None:
    stamps = [Stamp(NOW + DAY, NOW)]
    for turn in range(10_000):
        real = NOW + turn * 0.01
        stamps.append(next_stamp(stamps[-1], real + (2.0 if turn % 2 else -2.0)))
    assert stamps[-1].at - stamps[0].at <= 100 + 4
    assert all(before.at <= after.at for before, after in pairwise(stamps))
