"""From the gold tables of a warehouse to the figures of a report, through Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.errors import WarehouseMissing
from penstock.pipeline.report.buckets import Bucket
from penstock.pipeline.report.figures import Figures
from penstock.pipeline.report.reading import read_figures
from penstock.pipeline.tables import Table, tables
from penstock.pipeline.warehouse.files import arrow_schema, store_file
from penstock.pipeline.warehouse.marker import make_warehouse_marker
from penstock.pipeline.warehouse.opening import FORMATS, warehouse_of
from penstock.pipeline.warehouse.place import opened_place

NINE = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
QUEUE = "a-queue"
TABLES = {table.name: table for table in tables() if table.is_gold}


def sketch(spark: SparkSession, seconds: list[float]) -> bytes:
    values: DataFrame = spark.createDataFrame([(each,) for each in seconds], "seconds double")
    [row] = values.agg(sf.kll_sketch_agg_double("seconds").alias("sketch")).collect()
    return bytes(row.sketch)


def throughput(
    spark: SparkSession, at: datetime, type: str, seconds: list[float]
) -> dict[str, Any]:
    count = len(seconds)
    return {
        "minute": at, "tenant": "t", "queue": "q", "type": type, "enqueued": count + 1,
        "started": count, "completed": count, "failed": 1, "retried": 2, "expired": 0,
        "cancelled": 0, "released": 0, "snoozed": 0, "wait_count": count,
        "wait_seconds_sum": sum(seconds), "wait_seconds_max": max(seconds, default=None),
        "wait_sketch": sketch(spark, seconds), "run_count": 0, "run_seconds_sum": 0.0,
        "run_seconds_max": None, "run_sketch": sketch(spark, []),
    }  # fmt: skip


def gold(spark: SparkSession) -> dict[str, list[dict[str, Any]]]:
    """Two days: on the first one minute, on the second two."""
    next_day = NINE + timedelta(days=1)
    low, high = [number / 100 for number in range(50)], [number / 100 for number in range(50, 100)]
    error = {
        "tenant": "t", "queue": "q", "kind": "ValueError", "fingerprint": "f00d",
    }  # fmt: skip
    slo = {
        "tenant": "t", "queue": "q", "type": "a", "wait_seconds_max": 60.0,
        "run_seconds_max": 300.0, "success_target": 0.99, "met": False,
    }  # fmt: skip
    return {
        "throughput": [
            throughput(spark, NINE, "a", low),
            throughput(spark, next_day, "a", high),
            throughput(spark, next_day + timedelta(minutes=1), "b", []),
        ],
        "errors": [
            error | {
                "date": NINE.date(), "type": "a", "count": 2, "first_at": NINE, "last_at": NINE,
                "example": "the first", "example_id": "one", "example_position": 1,
            },
            error | {
                "date": next_day.date(), "type": "b", "count": 3, "first_at": next_day,
                "last_at": next_day, "example": "another", "example_id": "two",
                "example_position": 2,
            },
        ],
        "workers": [
            {
                "hour": at, "tenant": "t", "worker": "w", "attempts": 5, "completed": 4,
                "failed": 1, "busy_seconds": 30.0, "first_at": at - timedelta(minutes=5),
                "last_at": at + timedelta(minutes=1),
            }
            for at in (NINE, next_day)
        ],
        "cost": [
            {
                "hour": at, "commits": 10, "put_requests": 11, "events": 100, "jobs_ended": 50,
                "bytes_written": 5_000, "dollars": 0.5, "dollars_per_million_jobs": 10_000.0,
            }
            for at in (NINE, next_day)
        ],
        "slo": [
            slo | {
                "date": at.date(), "jobs": 10, "succeeded": 9, "within_wait": 8, "within_run": 7,
                "within_both": 6,
            }
            for at in (NINE, next_day)
        ],
    }  # fmt: skip


def day_of(table: Table, row: dict[str, Any]) -> date:
    moment = row[table.moment]
    return moment.date() if isinstance(moment, datetime) else moment


@pytest.fixture(scope="module", params=FORMATS)
def warehouse(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> str:
    url = str(tmp_path_factory.mktemp("report") / "warehouse")
    with opened_place(url) as place:
        make_warehouse_marker(place, QUEUE, request.param, 1)
        made = warehouse_of(place, QUEUE, request.param)
        for name, rows in gold(spark).items():
            table = TABLES[name]
            snapshot = made.snapshot(table)
            files = []
            for row in rows:
                day = day_of(table, row)
                stored = pa.Table.from_pylist([row | {"date": day}], arrow_schema(table))
                files.append(store_file(stored, table, day.isoformat(), place))
            snapshot.commit(files, [], 1)
    return url


@pytest.fixture(scope="module")
def told(spark: SparkSession, warehouse: str) -> Figures:
    return read_figures(spark, warehouse)


def test_the_tables_become_figures(told: Figures) -> None:
    assert told.over_time.bucket is Bucket.HOUR
    assert (told.total.enqueued, told.total.completed, told.total.failed) == (103, 100, 3)
    assert told.total.wait is not None
    assert told.total.wait.p50 == pytest.approx(0.5, abs=0.02)
    assert told.total.wait.p99 == pytest.approx(0.98, abs=0.02)
    assert told.total.run is None
    assert len(told.over_time.values) == 25
    last = told.over_time.values[-1]
    assert (last.completed, last.failed) == (50, 2)
    assert last.wait is not None
    assert last.wait.p50 == pytest.approx(0.75, abs=0.02)
    assert [(kind.type, kind.completed) for kind in told.kinds] == [("a", 100), ("b", 0)]
    assert _heated(told) == [(date(2026, 3, 2), 9, 50), (date(2026, 3, 3), 9, 50)]


def test_failures_workers_cost_and_objectives_are_added_up(told: Figures) -> None:
    [failure] = told.failures
    assert (failure.count, failure.types, failure.example) == (5, ("a", "b"), "the first")
    assert (failure.first_at, failure.last_at) == (NINE, NINE + timedelta(days=1))
    [worker] = told.workers
    # Present since the hour began, though its first attempt is older than that.
    assert (worker.attempts, worker.busy_seconds, worker.present_seconds) == (10, 60.0, 120.0)
    assert told.cost is not None
    assert (told.cost.dollars, told.cost.dollars_per_million) == (1.0, 10_000.0)
    assert told.objective is not None
    assert (told.objective.jobs, told.objective.within_both) == (20, 12)


def test_since_leaves_out_what_came_before(spark: SparkSession, warehouse: str) -> None:
    told = read_figures(spark, warehouse, NINE + timedelta(days=1, seconds=30))
    assert told.over_time.bucket is Bucket.MINUTE
    assert (told.total.completed, told.total.failed) == (50, 2)
    assert [failure.count for failure in told.failures] == [3]
    assert [worker.attempts for worker in told.workers] == [5]
    assert told.objective is not None
    assert told.objective.jobs == 10


def test_a_time_after_everything_leaves_nothing(spark: SparkSession, warehouse: str) -> None:
    told = read_figures(spark, warehouse, NINE + timedelta(days=400))
    assert told.first is None
    assert (told.kinds, told.failures, told.workers, told.cost) == ((), (), (), None)


def test_the_session_s_time_zone_changes_nothing(
    spark: SparkSession, warehouse: str, told: Figures
) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        assert read_figures(spark, warehouse) == told
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone or "UTC")


def test_a_place_without_tables_is_no_warehouse(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(WarehouseMissing, match="penstock pipeline run"):
        read_figures(spark, str(tmp_path / "nothing"))
    assert not (tmp_path / "nothing").exists()


def _heated(told: Figures) -> list[tuple[date, int, int]]:
    return [
        (day, hour, count)
        for day, counts in zip(told.heat.days, told.heat.counts, strict=True)
        for hour, count in enumerate(counts)
        if count
    ]
