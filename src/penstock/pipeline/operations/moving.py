"""Tables of a queue to files, and jobs from files into a queue, at Spark's scale."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame, DataFrameReader, Observation, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, MapType, StringType, StructType

from penstock.errors import InvalidInput
from penstock.kernel.job import State
from penstock.pipeline.failures import plainly
from penstock.pipeline.operations.choosing import matching, queue_table

FORMATS: Final = ("parquet", "json", "csv")
JOB_COLUMNS: Final = (
    "id", "type", "payload", "queue", "priority", "run_at", "key", "meta",
)  # fmt: skip
"""What of a job is imported; the rest is what the other queue knew about it."""
_ENDED: Final = (State.FAILED.value, State.CANCELLED.value)


def export_table(
    spark: SparkSession,
    url: str,
    target: str,
    *,
    table: str = "jobs",
    format: str = "parquet",
    where: str | None = None,
    tenant: str | None = None,
    overwrite: bool = False,
) -> int:
    """Writes a table's rows as a folder of files, and answers how many there are."""
    if format not in FORMATS:
        raise InvalidInput(f"format={format}: known are {', '.join(FORMATS)}")
    folder = _folder_to_write(target)
    with plainly(f"exporting to {target}"):
        rows = matching(queue_table(spark, url, table, tenant), where)
        if format == "csv":
            rows = flat(rows)
        rows, count = observed(rows)
        mode = "overwrite" if overwrite else "errorifexists"
        writer = rows.write.format(format).mode(mode)
        if format == "csv":
            writer = writer.option("header", True).option("escape", '"')
        writer.save(folder)
        return counted(count)


def import_jobs(
    spark: SparkSession,
    source: str,
    url: str,
    *,
    format: str | None = None,
    where: str | None = None,
    dead_letters: bool = False,
) -> int:
    """Adds jobs from files: they begin anew, with the ids they had. Answers how many were sent."""
    with plainly(f"importing {source}"):
        rows = _reader(spark, format or format_of(source)).load(source)
        jobs, count = observed(importable(matching(rows, where), dead_letters=dead_letters))
        jobs.write.format("penstock").option("url", url).mode("append").save()
        return counted(count)


def importable(rows: DataFrame, *, dead_letters: bool) -> DataFrame:
    """Rows that are jobs to be run, with the columns that a job is enqueued with."""
    if "type" not in rows.columns:
        raise InvalidInput(f"jobs need a column 'type'; there are {', '.join(rows.columns)}")
    if "state" in rows.columns:
        left_out = (State.COMPLETED.value, *(() if dead_letters else _ENDED))
        rows = rows.where(sf.col("state").isNull() | ~sf.col("state").isin(*left_out))
    if "run_at" in rows.columns and isinstance(rows.schema["run_at"].dataType, StringType):
        # JSON has no times.
        rows = rows.withColumn("run_at", sf.col("run_at").cast("timestamp"))
    return rows.select(*(name for name in JOB_COLUMNS if name in rows.columns))


def flat(rows: DataFrame) -> DataFrame:
    """With nested columns as JSON texts, which is all that CSV can hold."""
    nested = (ArrayType, MapType, StructType)
    return rows.select(
        *(
            sf.to_json(field.name).alias(field.name)
            if isinstance(field.dataType, nested)
            else sf.col(field.name)
            for field in rows.schema.fields
        )
    )


def observed(rows: DataFrame) -> tuple[DataFrame, Observation]:
    """The same rows, counted as they go by."""
    count = Observation()
    return rows.observe(count, sf.count(sf.lit(1)).alias("rows")), count


def counted(count: Observation) -> int:
    return int(count.get["rows"])


def format_of(source: str) -> str:
    """By the name's ending; a folder without one is taken for what `export` writes by default."""
    suffix = PurePosixPath(source.rstrip("/")).suffix.removeprefix(".")
    return {"jsonl": "json"}.get(suffix, suffix if suffix in FORMATS else FORMATS[0])


def _folder_to_write(target: str) -> str:
    """The same place; on this machine, what a symlink points to, and only a folder.

    Overwriting begins with deleting what has the name: a link instead of the files behind it, and
    a file, a pipe or a device as readily as a folder.
    """
    path = _local_path(target)
    if path is None:
        return target
    if path.exists() and not path.is_dir():
        raise InvalidInput(f"{target} is a file, and a folder of files is to be written; name one")
    return os.path.realpath(path) if path.is_symlink() else target


def _local_path(target: str) -> Path | None:
    scheme, colon, _ = target.partition(":")
    if not colon or "/" in scheme:
        return Path(target)
    return Path(unquote(urlsplit(target).path)) if scheme == "file" else None


def _reader(spark: SparkSession, format: str) -> DataFrameReader:
    reader = spark.read.format(format)
    if format == "csv":
        reader = reader.option("header", True).option("inferSchema", True).option("escape", '"')
    return reader
