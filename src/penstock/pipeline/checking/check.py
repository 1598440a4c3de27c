"""`penstock.spark.check`: a queue's whole log against the invariants, as one Spark job."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from penstock.address import Address, parse
from penstock.engines.ledger.log.startup import checkpoints
from penstock.errors import Corrupt, Unsupported
from penstock.pipeline.checking.judging import Judge
from penstock.pipeline.checking.reading import LogRead
from penstock.pipeline.checking.scope import Asked
from penstock.pipeline.mapping import mapped
from penstock.pipeline.session import joined
from penstock.pipeline.source.chunks import Span
from penstock.pipeline.source.log import LogSource
from penstock.pipeline.source.opening import QueueSource, opened, opened_store
from penstock.runtime.loops import run_apart
from penstock.runtime.services import Services
from penstock.wire.commit import decode_event

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
    return planned(url).violations(joined(spark))


class Check(Struct, frozen=True, kw_only=True):
    """A check that is about to be made."""

    url: str
    asked: Asked
    spans: list[Span]

    def violations(self, spark: SparkSession) -> DataFrame:
        tasks = len(self.spans) + (self.asked.checkpoint is not None)
        rows = spark.range(0, tasks, 1, max(tasks, 1))
        read = mapped(rows, LogRead(url=self.url, asked=self.asked, spans=self.spans), _ROWS)
        # The rows of one subject meet in one task, in order.
        together = read.repartition("scope", "subject")
        ordered = together.sortWithinPartitions("scope", "subject", "position")
        # Two laws may see the same: that a run was imported again, as a run and among its batches.
        return mapped(ordered, Judge(asked=self.asked), VIOLATIONS).distinct()


def planned(url: str) -> Check:
    """What there is to be checked as of now, and what can be asked of it."""
    return run_apart(_planned(parse(url, {})))


async def _planned(address: Address) -> Check:
    if address.scheme == "memory":
        raise Unsupported("checking it from other processes", "memory://")
    async with opened(address) as source:
        bounds = await source.bounds()
        is_log, newest_at, checkpoint = isinstance(source, LogSource), 0.0, None
        if bounds.floor <= bounds.head:
            newest_at = await _time_of(source, bounds.head)
        if is_log:
            async with opened_store(address, Services()) as store:
                commits = [commit for commit, _ in await checkpoints(store)]
            fitting = [it for it in commits if bounds.floor - 1 <= it <= bounds.head]
            checkpoint = max(fitting, default=None)
        asked = Asked(
            capabilities=None if isinstance(source, LogSource) else source.capabilities,
            floor=bounds.floor,
            newest_at=newest_at,
            checkpoint=checkpoint,
        )
        spans = source.partitions(Span(bounds.floor, bounds.head), None)
    return Check(url=address.absolute_url, asked=asked, spans=spans)


async def _time_of(source: QueueSource, commit: int) -> float:
    """0 if it can't be read: then nothing is known to be overdue, and the check says why."""
    newest = 0.0
    try:
        async with aclosing(source.chunks(Span(commit, commit))) as chunks:
            async for chunk in chunks:
                newest = decode_event(chunk.lines.splitlines()[-1]).at
    except Corrupt:
        return 0.0
    return newest
