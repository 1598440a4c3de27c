"""Rows in, exact numbers out."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from penstock.pipeline.report import formats
from penstock.pipeline.report.buckets import Bucket, bucket_for
from penstock.pipeline.report.figures import Figures, figures
from penstock.pipeline.report.heat_map import heat_step
from penstock.pipeline.report.rows import (
    CostHour,
    Failure,
    HourCount,
    Kind,
    Moment,
    ObjectiveDay,
    Quantiles,
    Rows,
    Traffic,
    WorkerHour,
)

NINE = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def of(bucket: Bucket = Bucket.MINUTE, **rows: object) -> Figures:
    return figures(Rows(**rows), bucket)  # type: ignore[arg-type]


def test_minutes_in_which_nothing_happened_are_there_too() -> None:
    wait = Quantiles(0.1, 0.2, 0.3)
    told = of(
        moments=(
            Moment(at=NINE + minutes(3), completed=4, wait=wait),
            Moment(at=NINE, enqueued=4),
        )
    )
    assert told.first == NINE
    assert told.until == NINE + minutes(4)
    assert told.over_time.starts == tuple(NINE + minutes(number) for number in range(4))
    assert [each.completed for each in told.over_time.values] == [0, 0, 0, 4]
    assert [each.wait for each in told.over_time.values] == [None, None, None, wait]


def test_success_is_of_jobs_that_were_not_cancelled() -> None:
    assert of(total=Traffic(completed=3, failed=1, cancelled=96)).success == 0.75
    assert of().success is None


def test_the_heat_map_has_every_hour_of_every_day_and_knows_which_are_outside() -> None:
    at = NINE.replace(hour=23)
    heat = of(hours=(HourCount(at, 7), HourCount(at + timedelta(hours=3), 5))).heat
    assert heat.days == (date(2026, 3, 2), date(2026, 3, 3))
    assert heat.counts[0] == (*[None] * 23, 7)
    assert heat.counts[1] == (0, 0, 5, *[None] * 21)


def test_workers_are_added_up_over_hours_and_the_busiest_comes_first() -> None:
    def hour(at: datetime, worker: str, busy_seconds: float, minutes_present: float) -> WorkerHour:
        return WorkerHour(
            at=at, worker=worker, attempts=10, completed=9, failed=1, busy_seconds=busy_seconds,
            first_at=at, last_at=at + minutes(minutes_present),
        )  # fmt: skip

    ten = NINE + timedelta(hours=1)
    told = of(
        moments=(Moment(at=NINE), Moment(at=ten + minutes(29))),
        workers=(hour(NINE, "a", 600, 10), hour(ten, "a", 300, 20), hour(ten, "b", 1500, 25)),
    )
    assert [(worker.name, worker.busy_seconds) for worker in told.workers] == [
        ("b", 1500),
        ("a", 900),
    ]
    assert told.workers[1].attempts == 20
    assert told.workers[1].jobs_at_once == 900 / (30 * 60)
    # Nine was covered in full, ten for half an hour.
    assert told.jobs_at_once.values == (600 / 3600, 1800 / 1800)


def test_cost_is_per_million_jobs_that_ended_and_by_the_hour() -> None:
    def hour(at: datetime, jobs_ended: int, dollars: float) -> CostHour:
        return CostHour(
            at=at, put_requests=100, bytes_written=1_000, jobs_ended=jobs_ended, dollars=dollars
        )

    cost = of(cost=(hour(NINE, 30_000, 0.25), hour(NINE + timedelta(hours=2), 20_000, 0.5))).cost
    assert cost is not None
    assert cost.dollars == 0.75
    assert cost.dollars_per_million == pytest.approx(15.0)
    assert cost.put_requests == 200
    assert cost.over_time.values == (0.25, 0.0, 0.5)


def test_jobs_that_have_not_ended_cost_nothing_per_million() -> None:
    hour = CostHour(at=NINE, put_requests=1, bytes_written=1, jobs_ended=0, dollars=0.1)
    cost = of(cost=(hour,)).cost
    assert cost is not None
    assert cost.dollars_per_million is None


def test_objectives_are_added_up_by_kind_and_by_day_the_worst_first() -> None:
    def day(number: int, type: str, jobs: int, met: int, target: float) -> ObjectiveDay:
        return ObjectiveDay(
            date=date(2026, 3, number), queue="q", type=type, wait_seconds_max=60,
            run_seconds_max=300, success_target=target, jobs=jobs, succeeded=met,
            within_wait=jobs, within_run=jobs, within_both=met,
        )  # fmt: skip

    told = of(
        objectives=(day(2, "a", 10, 10, 0.9), day(4, "a", 30, 29, 0.99), day(2, "b", 10, 8, 0.9))
    )
    assert told.objective is not None
    assert (told.objective.jobs, told.objective.within_both) == (50, 47)
    assert [(each.type, each.jobs) for each in told.objectives] == [("b", 10), ("a", 40)]
    assert told.objectives[1].success_target == 0.99
    assert told.attainment.values == (18 / 20, None, 29 / 30)


def test_what_happens_most_comes_first() -> None:
    def failure(fingerprint: str, count: int) -> Failure:
        return Failure(
            kind="E", fingerprint=fingerprint, count=count, types=(), first_at=NINE, last_at=NINE,
            example="", example_id="",
        )  # fmt: skip

    told = of(
        failures=(failure("a", 1), failure("b", 3)),
        kinds=(Kind(queue="q", type="a", completed=1), Kind(queue="q", type="b", failed=2)),
    )
    assert [each.fingerprint for each in told.failures] == ["b", "a"]
    assert [each.type for each in told.kinds] == ["b", "a"]


@pytest.mark.parametrize(
    ("length", "bucket"),
    [
        (minutes(1), Bucket.MINUTE),
        (timedelta(hours=4), Bucket.MINUTE),
        (timedelta(hours=5), Bucket.HOUR),
        (timedelta(days=10), Bucket.HOUR),
        (timedelta(days=90), Bucket.DAY),
    ],
)
def test_buckets_grow_with_the_time(length: timedelta, bucket: Bucket) -> None:
    assert bucket_for(length) is bucket


def test_levels_of_heat_are_round_and_reach_the_most() -> None:
    assert [heat_step(most) for most in (0, 1, 6, 7, 4_100, 6_000, 61_000)] == [
        *(1, 1, 1, 2),
        *(1_000, 1_000, 20_000),
    ]


def test_numbers_are_said_as_people_read_them() -> None:
    def plain(words: str) -> str:
        return words.replace(formats.NARROW_SPACE, " ")

    seconds = (0, 0.00421, 0.9999, 38.5, 745, 1e6, None)
    assert [plain(formats.duration(each)) for each in seconds] == [
        "0 s", "4.21 ms", "1 s", "38.5 s", "12.4 min", "11.6 d", "–",
    ]  # fmt: skip
    assert [plain(formats.percent(each)) for each in (1, 0.999999, 0.5, None)] == [
        "100 %", "99.99 %", "50.0 %", "–",
    ]  # fmt: skip
    assert [formats.dollars(each) for each in (0, 1234.5, 0.5, 0.00123, None)] == [
        "$0.00", "$1,234.50", "$0.50", "$0.0012", "–",
    ]  # fmt: skip
    assert [plain(formats.short_count(each)) for each in (0, 2.5, 9_999_999, 12_345_678)] == [
        "0", "2.5", "9,999,999", "12.3 M",
    ]  # fmt: skip
    assert [formats.span(minutes(each)) for each in (0, 1, 61, 10_201)] == [
        "less than a minute", "1 minute", "1 hour, 1 minute", "7 days, 2 hours",
    ]  # fmt: skip
