"""Replay by a predicate: Spark finds the jobs, the queue opens them again, batch by batch.

Doing it twice does no harm: what the first time has opened is no longer failed or cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby, islice
from typing import Any, Final

from msgspec import Struct
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from penstock.errors import JobNotFound, KeyHeld, PenstockError, WrongState
from penstock.pipeline.failures import plainly
from penstock.pipeline.operations.choosing import (
    matching,
    queue_table,
    replayable,
)
from penstock.pipeline.warehouse.reading import load_table
from penstock.wiring import open_sync

JOBS_PER_COMMIT: Final = 1_000
SAMPLES: Final = 20


class Replayed(Struct):
    """What became of the jobs that were chosen."""

    replayed: int = 0
    """Open again, by this or by somebody else who was faster."""
    completed: int = 0
    """Somebody had replayed them before, and they have completed since."""
    gone: int = 0
    """Not in the queue any more, after their retention."""
    held: int = 0
    """Another live job holds their key by now."""
    failed: int = 0


class Chosen:
    """Jobs that a predicate has found, to be looked at and replayed."""

    def __init__(self, url: str, jobs: DataFrame) -> None:
        self._url = url
        self._jobs = jobs

    def count(self) -> int:
        return self._jobs.count()

    def by_reason(self) -> list[Row]:
        """What they have in common, the most frequent first."""
        counts = self._jobs.groupBy("state", "type", "kind").agg(
            sf.count("*").alias("jobs"), sf.min("error").alias("example")
        )
        return counts.orderBy(sf.desc("jobs"), "type", "kind").limit(SAMPLES).collect()

    def replay(self, done: Callable[[int], None] = lambda count: None) -> Replayed:
        total = Replayed()
        rows = self._jobs.select("tenant", "id").orderBy("tenant", "id").toLocalIterator()
        for tenant, those in groupby(rows, key=lambda row: row["tenant"]):
            with open_sync(self._url, tenant=tenant) as queue:
                for ids in _batches(row["id"] for row in those):
                    for outcome in queue.replay(ids):
                        _count(total, outcome)
                    done(len(ids))
        return total


@contextmanager
def chosen(
    spark: SparkSession,
    url: str,
    predicate: str,
    *,
    tenant: str | None = None,
    warehouse: str | None = None,
    limit: int | None = None,
) -> Iterator[Chosen]:
    """Failed and cancelled jobs of which the predicate is true, oldest first if there is a limit.

    With a warehouse its table `jobs` is asked, which spares the queue's store the reading.
    """
    if warehouse is None:
        jobs = queue_table(spark, url, "jobs", tenant)
    else:
        jobs = load_table(spark, warehouse, "jobs")
        if tenant is not None:
            jobs = jobs.where(sf.col("tenant") == tenant)
    with plainly("choosing jobs"):
        found = matching(replayable(jobs), predicate)
        if limit is not None:
            found = found.orderBy("position").limit(limit)
        # Chosen once: what is shown is what is replayed.
        kept = found.select("tenant", "id", "state", "type", "kind", "error").persist()
        try:
            yield Chosen(url, kept)
        finally:
            kept.unpersist()


def _batches(ids: Iterable[str]) -> Iterator[list[str]]:
    waiting = iter(ids)
    while batch := list(islice(waiting, JOBS_PER_COMMIT)):
        yield batch


def _count(total: Replayed, outcome: Any) -> None:
    match outcome:
        case WrongState():
            total.completed += 1
        case JobNotFound():
            total.gone += 1
        case KeyHeld():
            total.held += 1
        case PenstockError():
            total.failed += 1
        case _:
            total.replayed += 1
