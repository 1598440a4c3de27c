"""A warehouse's tables as frames, read by Spark's tasks through penstock's own stores.

Where a cluster has Delta's jars and can reach the place itself, `format("delta")` reads the same
tables.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.address import Address
from penstock.errors import InvalidInput
from penstock.pipeline.tables import Table, tables
from penstock.pipeline.warehouse.files import DataFile, arrow_schema, decoded_file
from penstock.pipeline.warehouse.opening import opened_warehouse
from penstock.runtime.loops import new_loop
from penstock.runtime.services import Services
from penstock.wiring import open_patient_store


def load_table(spark: SparkSession, warehouse: str, name: str) -> DataFrame:
    """One table as it is now; a run that comes later does not change what the frame has."""
    found = {table.name: table for table in tables()}
    if name not in found:
        raise InvalidInput(f"no table {name!r}; there are {', '.join(found)}")
    return _loaded(spark, warehouse, [found[name]])[name]


def create_views(spark: SparkSession, warehouse: str) -> list[str]:
    """Makes each table a temporary view of its name, for SQL; again, to see what came since."""
    frames = _loaded(spark, warehouse, tables())
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    return list(frames)


def _loaded(
    spark: SparkSession, url: str, wanted: list[Table] | tuple[Table, ...]
) -> dict[str, DataFrame]:
    with opened_warehouse(url) as (place, warehouse):
        files = {table.name: warehouse.snapshot(table).files() for table in wanted}
    return {
        table.name: _frame(spark, table, list(files[table.name]), place.address) for table in wanted
    }


def _frame(spark: SparkSession, table: Table, files: list[DataFile], address: Address) -> DataFrame:
    # With a schema in words: Spark Connect can't tell one from no files, not even from Arrow.
    names = [(file.path, file.date) for file in files]
    listed = spark.createDataFrame(names, "path string, date string").repartition(
        max(1, len(files))
    )
    return listed.mapInArrow(_reader(table.name, arrow_schema(table), address), table.schema)


def _reader(
    folder: str, schema: pa.Schema, address: Address
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What runs in a task."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            store = open_patient_store(address, Services())
            for batch in batches:
                for row in batch.to_pylist():
                    stored = runner.run(store.get(f"{folder}/{row['path']}"))
                    yield from decoded_file(stored.data, schema, row["date"]).to_batches()
            runner.run(store.close())

    return read
