"""Tables of a warehouse beside their recount: the same rows, in every column."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from penstock.pipeline.tables import Table, tables
from penstock.pipeline.warehouse.files import arrow_schema
from penstock.pipeline.warehouse.parquet import Manifest
from tests.pipeline.backends import LOG, Backend
from tests.pipeline.recount import Recount, Row, day_of, rank_error

ALL = {table.name: table for table in tables()}
TEXTS = frozenset({"payload", "result", "meta", "retry", "settings", "objects"})
APPROXIMATE = frozenset({"dollars", "dollars_per_million_jobs"})
SUMS = frozenset({"wait_seconds_sum", "run_seconds_sum", "busy_seconds"})
"""Added up in increments, of waits that may be years where a story and a pipeline take turns."""
SKETCHES = frozenset({"wait_sketch", "run_sketch"})
QUANTILES = (0.5, 0.95, 0.99)
RANK_ERROR_MAX = 0.02
"""Of KLL sketches of this size, with 99 % confidence, is 0.0165."""


def stored(warehouse: Path, name: str) -> pa.Table:
    """The table as other programs read it."""
    manifest = warehouse / name / "manifest.json"
    if not manifest.exists():
        return DeltaTable(str(warehouse / name)).to_pyarrow_table()
    files = msgspec.json.decode(manifest.read_bytes(), type=Manifest).files
    paths = [str(warehouse / name / file.path) for file in files]
    schema = arrow_schema(ALL[name])
    dates = ds.partitioning(pa.schema([schema.field("date")]), flavor="hive")
    folder = str(warehouse / name)
    return ds.dataset(
        paths, schema=schema, partitioning=dates, partition_base_dir=folder
    ).to_table()


def cursor(warehouse: Path, name: str = "events") -> int:
    manifest = warehouse / name / "manifest.json"
    if manifest.exists():
        found = msgspec.json.decode(manifest.read_bytes(), type=Manifest).cursor
    else:
        delta = DeltaTable(str(warehouse / name))
        found = delta.transaction_version(delta.metadata().configuration["penstock.queue"])
    assert found is not None
    return found


def assert_tables_are_right(
    spark: SparkSession, queue: Path, warehouse: Path, since: str = "", kind: Backend = LOG
) -> Recount:
    """Every table has what the events say up to its cursor, from a day on; and all are as far."""
    cursors = {name: cursor(warehouse, name) for name in ALL}
    assert len(set(cursors.values())) == 1, cursors
    recount = Recount(kind.taken(queue, warehouse, cursors["events"]))
    for name, rows in recount.tables().items():
        table = ALL[name]
        kept = [row for row in rows if day_of(row, table.moment).isoformat() >= since]
        assert_same_rows(table, stored(warehouse, name), kept)
    assert_sketches_are_right(spark, stored(warehouse, "throughput"), recount)
    return recount


def assert_same_rows(table: Table, found: pa.Table, expected: list[Row]) -> None:
    # Where events are ordered per job, two jobs may have some at the same position.
    keys = table.keys or ("position", "id")
    there = found.select(list(keys)).to_pylist()
    if found.num_rows != len(expected):
        missing = [row for row in expected if {name: row.get(name) for name in keys} not in there]
        said = f"{found.num_rows} and not {len(expected)} rows; some are missing: {missing[:3]}"
        raise AssertionError(f"{table.name}: {said}")
    order = pa.array(_order(there, keys), pa.int64())
    expected = [expected[number] for number in _order(expected, keys)]
    for name in found.column_names:
        if name in SKETCHES:
            continue
        values = found.column(name).take(order).to_pylist()
        wanted = [
            day_of(row, table.moment) if name == "date" else row.get(name) for row in expected
        ]
        if name in TEXTS:
            values = [None if value is None else json.loads(value) for value in values]
        if name in APPROXIMATE:
            assert values == pytest.approx(wanted), (table.name, name)
        elif name in SUMS:
            assert values == pytest.approx(wanted, rel=1e-12, abs=1e-9), (table.name, name)
        elif values != wanted:
            different = [pair for pair in zip(values, wanted, strict=True) if pair[0] != pair[1]]
            raise AssertionError(f"{table.name}.{name}: {len(different)} differ: {different[:3]}")


def assert_sketches_are_right(spark: SparkSession, found: pa.Table, recount: Recount) -> None:
    keys = ("minute", "tenant", "queue", "type")
    for name, of in (("wait", recount.waits), ("run", recount.runs)):
        sketch, count = f"{name}_sketch", f"{name}_count"
        frame = spark.createDataFrame(found.select([*keys, sketch, count]))
        rows = (
            frame.where(sf.col(count) > 0)
            .select(
                sf.unix_micros("minute").alias("minute"),
                *keys[1:],
                count,
                sf.kll_sketch_get_n_double(sketch).alias("n"),
                *(
                    sf.kll_sketch_get_quantile_double(sketch, sf.lit(share)).alias(str(share))
                    for share in QUANTILES
                ),
            )
            .toArrow()
            .to_pylist()
        )
        minutes = dict(zip(_micros(found), found.column("minute").to_pylist(), strict=True))
        for row in rows:
            values = of(minutes[row["minute"]], row["tenant"], row["queue"], row["type"])
            assert row["n"] == row[count] == len(values)
            for share in QUANTILES:
                assert rank_error(values, share, row[str(share)]) <= RANK_ERROR_MAX


def _micros(found: pa.Table) -> list[int]:
    micros: list[int] = found.column("minute").cast(pa.int64()).to_pylist()
    return micros


def _order(rows: list[Row], keys: Iterable[str]) -> list[int]:
    def key(number: int) -> tuple[Any, ...]:
        values = (rows[number].get(name) for name in keys)
        return tuple((value is not None, value) for value in values)

    return sorted(range(len(rows)), key=key)
