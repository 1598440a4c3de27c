"""Reads the gold tables of a warehouse: through its own store, then added up by Spark."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.report import sums
from penstock.pipeline.report.buckets import Bucket, bucket_for
from penstock.pipeline.report.figures import Figures, figures
from penstock.pipeline.report.rows import (
    CostHour,
    Failure,
    HourCount,
    Kind,
    Moment,
    ObjectiveDay,
    Rows,
    Traffic,
    WorkerHour,
)
from penstock.pipeline.tables import Table, tables
from penstock.pipeline.warehouse.files import read_files
from penstock.pipeline.warehouse.opening import opened_warehouse
from penstock.pipeline.warehouse.warehouse import Warehouse

Row = TypeVar("Row")


def read_figures(spark: SparkSession, url: str, since: datetime | None = None) -> Figures:
    """What the warehouse at `url` says of the time since, or of all the time that it has."""
    with opened_warehouse(url) as (_, warehouse):
        gold = {table.name: _stored(warehouse, table, since) for table in tables() if table.is_gold}
    bucket = _bucket(gold["throughput"])
    return figures(_rows(spark, gold, bucket), bucket)


def _stored(warehouse: Warehouse, table: Table, since: datetime | None) -> pa.Table:
    """Rows from the bucket on that the time is in."""
    found = warehouse.snapshot(table).files()
    if since is None:
        return read_files(found, table, warehouse.place)
    start = table.bucket_of(since)
    reaching = [file for file in found if file.may_reach(table.moment, start)]
    rows = read_files(reaching, table, warehouse.place)
    is_day = pa.types.is_date(rows.schema.field(table.moment).type)
    return rows.filter(pc.field(table.moment) >= pa.scalar(start.date() if is_day else start))


def _bucket(throughput: pa.Table) -> Bucket:
    ends = pc.min_max(throughput.column("minute")).as_py()
    if ends["min"] is None:
        return Bucket.MINUTE
    return bucket_for(ends["max"] + Bucket.MINUTE.length - ends["min"])


def _rows(spark: SparkSession, gold: dict[str, pa.Table], bucket: Bucket) -> Rows:
    frames = {name: spark.createDataFrame(rows) for name, rows in gold.items()}
    throughput = frames["throughput"].cache()
    try:
        [total] = _collected(sums.total(throughput), Traffic)
        return Rows(
            total=total,
            moments=_collected(sums.moments(throughput, bucket), Moment),
            kinds=_collected(sums.kinds(throughput), Kind),
            hours=_collected(sums.hours(throughput), HourCount),
            failures=_collected(sums.failures(frames["errors"]), Failure),
            workers=_collected(sums.workers(frames["workers"]), WorkerHour),
            cost=_collected(sums.cost(frames["cost"]), CostHour),
            objectives=_collected(sums.objectives(frames["slo"]), ObjectiveDay),
        )
    finally:
        throughput.unpersist()


def _collected(frame: DataFrame, row: type[Row]) -> tuple[Row, ...]:
    rows = _in_utc(frame.toArrow()).to_pylist()
    wanted: Any = tuple[row, ...]  # type: ignore[valid-type]
    collected: tuple[Row, ...] = msgspec.convert(rows, wanted)
    return collected


def _in_utc(rows: pa.Table) -> pa.Table:
    """Spark gives times in the session's zone, which is the user's to choose."""
    utc = pa.timestamp("us", "UTC")
    return rows.cast(
        pa.schema(
            field.with_type(utc) if pa.types.is_timestamp(field.type) else field
            for field in rows.schema
        )
    )
