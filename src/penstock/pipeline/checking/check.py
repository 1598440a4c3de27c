"""`penstock.spark.check`: a queue's whole log against the invariants, as one Spark job."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from penstock.address import STORES, Address, parse
from penstock.engines.ledger.marker import read_marker
from penstock.errors import NoQueue, Unsupported
from penstock.pipeline.checking.judging import Judge
from penstock.pipeline.checking.reading import LogRead
from penstock.pipeline.mapping import mapped
from penstock.pipeline.session import joined
from penstock.pipeline.source.chunks import Span
from penstock.pipeline.source.log import LogSource
from penstock.runtime.loops import run_apart
from penstock.runtime.services import Services
from penstock.wiring import open_patient_store

_ROWS: Final = StructType(
    [
        StructField("scope", StringType()),
        StructField("subject", StringType()),
        StructField("position", LongType()),
        StructField("line", BinaryType()),
    ]
)
VIOLATIONS: Final = StructType(
    [
        StructField("invariant", IntegerType()),
        StructField("tenant", StringType()),
        StructField("id", StringType()),
        StructField("commit", LongType()),
        StructField("position", LongType()),
        StructField("message", StringType()),
    ]
)
"""One row per place where an invariant does not hold; its number is that of the kernel's list."""


def check(url: str, *, spark: SparkSession | None = None) -> DataFrame:
    """The places where a queue's log breaks an invariant; an empty frame if all is well.

    The log is read as it is when the frame is computed, from the floor up to the newest commit as
    of now. Where vacuum has taken the beginning, jobs that began there are left out.
    """
    address = parse(url, {})
    floor, spans = run_apart(_plan(address))
    rows = joined(spark).range(0, len(spans), 1, max(len(spans), 1))
    read = mapped(rows, LogRead(url=address.absolute_url, floor=floor, spans=spans), _ROWS)
    # The rows of one subject meet in one task, in order.
    together = read.repartition("scope", "subject")
    ordered = together.sortWithinPartitions("scope", "subject", "position")
    # Two laws may see the same: that a run was imported again, as a run and among its batches.
    return mapped(ordered, Judge(floor=floor), VIOLATIONS).distinct()


async def _plan(address: Address) -> tuple[int, list[Span]]:
    if address.scheme not in STORES:
        raise Unsupported("checking its log", f"{address.scheme}://")
    store = open_patient_store(address, Services())
    try:
        marker = await read_marker(store)
        if marker is None:
            raise NoQueue(address.shown_url)
        if marker.layout != "log":
            raise Unsupported("checking a log, which it does not have", f"layout {marker.layout}")
        log = LogSource(store)
        bounds = await log.bounds()
        return bounds.floor, log.partitions(Span(bounds.floor, bounds.head), None)
    finally:
        await store.close()
