"""Which rows an operation is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.errors import WarehouseMissing
from penstock.kernel.job import State
from penstock.pipeline.failures import predicate_checked
from penstock.pipeline.tables import Table, tables
from penstock.pipeline.warehouse.files import DataFile, read_files
from penstock.pipeline.warehouse.marker import stored_warehouse_marker
from penstock.pipeline.warehouse.opening import warehouse_of
from penstock.pipeline.warehouse.place import opened_place

REPLAYABLE = (State.FAILED.value, State.CANCELLED.value)


def queue_table(spark: SparkSession, url: str, table: str, tenant: str | None = None) -> DataFrame:
    options = {"url": url, "table": table, **({} if tenant is None else {"tenant": tenant})}
    return spark.read.format("penstock").options(**options).load()


def warehouse_table(spark: SparkSession, url: str, name: str) -> DataFrame:
    """A table of a warehouse, read by the executors through the warehouse's own store."""
    table = _table(name)
    with opened_place(url) as place:
        marker = stored_warehouse_marker(place)
        if marker is None:
            raise WarehouseMissing(url)
        kept = warehouse_of(spark, place, marker.queue, marker.kind)
        files = list(kept.snapshot(table).files())
    numbers = spark.range(0, len(files), 1, max(1, len(files)))
    return numbers.mapInArrow(_FileRead(url=url, table=name, files=files), table.schema)


def matching(rows: DataFrame, predicate: str | None) -> DataFrame:
    """Those of which a condition in Spark SQL is true."""
    if predicate is None:
        return rows
    with predicate_checked(predicate, rows.columns):
        chosen = rows.where(predicate)
        # Spark Connect looks at it only when it is asked.
        assert chosen.schema
    return chosen


def replayable(jobs: DataFrame) -> DataFrame:
    """Jobs whose last word is a failure or a cancellation; one row each."""
    newest = jobs.groupBy("tenant", "id").agg(sf.max_by(sf.struct("*"), "position").alias("job"))
    return newest.select("job.*").where(sf.col("state").isin(*REPLAYABLE))


class _FileRead(Struct, frozen=True, kw_only=True):
    url: str
    table: str
    files: list[DataFile]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with opened_place(self.url) as place:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    rows = read_files([self.files[number]], _table(self.table), place)
                    yield from rows.to_batches()


def _table(name: str) -> Table:
    return next(table for table in tables() if table.name == name)
