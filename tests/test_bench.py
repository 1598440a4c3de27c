"""The benchmarks of workers run; how fast is for `make bench` to say."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import pickup, workers
from bench.load import Timing
from bench.rivals import NoRival

CONTENDER = workers.CONTENDERS[0].name
BATCHED = workers.CONTENDERS[-1].name


@pytest.mark.slow
def test_a_worker_process_drains_what_a_client_process_enqueued(tmp_path: Path) -> None:
    timing = workers.penstock_timing(str(tmp_path), jobs=200, concurrency=16)
    assert timing.jobs == 200
    assert timing.enqueue_seconds > 0
    assert timing.drain_seconds > 0


@pytest.mark.slow
@pytest.mark.parametrize("where", [pickup.HERE, pickup.ELSEWHERE])
def test_an_idle_worker_picks_up(where: str, tmp_path: Path) -> None:
    taken = pickup.latencies(where, str(tmp_path), samples=5)
    assert 0 < taken.p50_seconds <= taken.p99_seconds


def penstock(timing: Timing) -> dict[str, list[workers.Outcome]]:
    return {workers.PENSTOCK: [timing], workers.PENSTOCK_DEFAULT: [timing]}


def test_the_bar_is_twice_the_best_of_those_that_count() -> None:
    ours, theirs, batched = (Timing(20_000, 0.5, seconds) for seconds in (0.5, 1.5, 0.1))
    *_, row = workers.rows_of({**penstock(ours), CONTENDER: [theirs], BATCHED: [batched]})
    assert (row.rival_name, row.ratio, row.verdict) == (CONTENDER, 2.0, "pass")


def test_a_rival_that_failed_leaves_its_rows_empty() -> None:
    ours = Timing(20_000, 0.5, 0.5)
    *rows, last = workers.rows_of({**penstock(ours), CONTENDER: [NoRival("it failed")]})
    assert {row.rival for row in rows if row.rival_name == CONTENDER} == {"not to be had"}
    assert last.verdict == "not measured"
