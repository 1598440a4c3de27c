"""What an event of a bulk import says about the jobs that it brings, without looking at them.

The event names the run's objects, each with its segments, and a segment's chunks are lists of
`[size_bytes, rows, run_at]`. All of it is arithmetic on these: a million jobs are a few rows.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

OBJECTS: Final = (
    "array<struct<segments: array<"
    "struct<queue: string, type: string, offset: bigint, chunks: array<array<double>>>>>>"
)
_SIZE_BYTES, _ROWS = 0, 1


def imported(events: DataFrame) -> DataFrame:
    """How many jobs of each queue and type each import has brought: its columns and `jobs`."""
    segments = (
        events.where(sf.col("event") == "imported")
        .select("at", "tenant", sf.inline(sf.from_json("objects", OBJECTS)))
        .select("at", "tenant", sf.inline("segments"))
    )
    return segments.select("at", "tenant", "queue", "type", _sum("chunks", _ROWS).alias("jobs"))


def objects_written(objects: str) -> Column:
    """How many objects an event tells of that no event before it did.

    An object with jobs of several tenants is in an event of each; where it begins is in one.
    """
    parts = sf.from_json(objects, OBJECTS)
    first = sf.filter(parts, lambda part: sf.exists(part["segments"], _begins))
    return sf.coalesce(sf.size(first).cast("long"), sf.lit(0).cast("long"))


def bytes_written(objects: str) -> Column:
    segments = sf.flatten(sf.transform(sf.from_json(objects, OBJECTS), lambda it: it["segments"]))
    chunks = sf.flatten(sf.transform(segments, lambda segment: segment["chunks"]))
    return sf.coalesce(_sum(chunks, _SIZE_BYTES), sf.lit(0).cast("long"))


def _begins(segment: Column) -> Column:
    return sf.coalesce(segment["offset"], sf.lit(0)) == 0


def _sum(chunks: Column | str, field: int) -> Column:
    zero = sf.lit(0).cast("long")
    return sf.aggregate(chunks, zero, lambda total, chunk: total + chunk[field].cast("long"))
