"""The warehouse's tables, each described once: its columns, how it is made and how it merges.

`events`, `attempts` and `jobs` only grow. The rows of a gold table are sums over a key, one of
them per bucket of time, and an increment adds to them: the rows of the buckets that it touches are
taken out, put beside the new ones, and aggregated again. Since commit times do not go back, those
are the buckets from the increment's first event on, so the work follows what is new.

Every table is partitioned by `date`, the day in UTC of its `moment`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from penstock.pipeline import schemas
from penstock.pipeline.transforms import endings, gold
from penstock.pipeline.transforms.gold import Objectives, Prices
from penstock.pipeline.transforms.moments import (
    DAY_SECONDS,
    HOUR_SECONDS,
    MINUTE_SECONDS,
    date,
    seconds_added,
)

PARTITION: Final = "date"
Merge: TypeAlias = Callable[[str], Column]


@dataclass(frozen=True)
class Increment:
    """What a range of commits says."""

    events: DataFrame
    commits: DataFrame

    @cached_property
    def attempts(self) -> DataFrame:
        return endings.attempts(self.events)


@dataclass(frozen=True)
class Table:
    name: str
    columns: StructType
    """Without the partition, unless that is part of the key."""
    moment: str
    make: Callable[[Increment], DataFrame]
    keys: tuple[str, ...] = ()
    merges: Mapping[str, Merge] = field(default_factory=dict)
    derive: Callable[[DataFrame], DataFrame] = lambda rows: rows
    """Adds the columns that follow from the merged ones."""
    bucket_seconds: int = DAY_SECONDS
    file_seconds: int = DAY_SECONDS
    """No file has rows of more than one span of this length, so that few are written again."""

    @property
    def is_gold(self) -> bool:
        return bool(self.keys)

    @property
    def schema(self) -> StructType:
        """The columns as they are stored. All may be null: a file may be older than a column."""
        fields = [field for field in self.columns.fields if field.name != PARTITION]
        return StructType(
            [StructField(each.name, each.dataType) for each in fields]
            + [StructField(PARTITION, schemas.DATE)]
        )

    def rows(self, increment: Increment) -> DataFrame:
        return self.stored(self.make(increment))

    def merged(self, rows: DataFrame) -> DataFrame:
        """One row per key, out of rows of several increments."""
        measures = [merge(name).alias(name) for name, merge in self.merges.items()]
        return self.stored(self.derive(rows.groupBy(*self.keys).agg(*measures)))

    def stored(self, rows: DataFrame) -> DataFrame:
        """The rows as they are stored: all columns, in order, and the partition."""
        if PARTITION not in self.columns.names:
            rows = rows.withColumn(PARTITION, date(sf.col(self.moment)))
        return rows.select(
            *(sf.col(each.name).cast(each.dataType).alias(each.name) for each in self.schema.fields)
        )

    def bucket_of(self, at: datetime) -> datetime:
        """The beginning of the bucket that a time falls into."""
        midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
        passed = int((at - midnight).total_seconds())
        return midnight + timedelta(seconds=passed - passed % self.bucket_seconds)


def tables(objectives: Objectives | None = None, prices: Prices | None = None) -> tuple[Table, ...]:
    """All of them, in the order in which they are written."""
    return (
        EVENTS,
        ATTEMPTS,
        JOBS,
        THROUGHPUT,
        ERRORS,
        WORKERS,
        _cost(prices or Prices()),
        _slo(objectives or Objectives()),
    )


def _merged_distribution(name: str) -> dict[str, Merge]:
    return {
        f"{name}_count": sf.sum,
        f"{name}_seconds_sum": _seconds_added,
        f"{name}_seconds_max": sf.max,
        f"{name}_sketch": sf.kll_merge_agg_double,
    }


def _seconds_added(name: str) -> Column:
    return seconds_added(sf.col(name))


def _of_the_first(name: str) -> Column:
    return sf.min_by(name, "example_position")


EVENTS: Final = Table("events", schemas.EVENTS, "at", lambda new: new.events)
ATTEMPTS: Final = Table("attempts", schemas.ATTEMPTS, "ended_at", lambda new: new.attempts)
JOBS: Final = Table("jobs", schemas.JOBS, "ended_at", lambda new: endings.jobs(new.events))
THROUGHPUT: Final = Table(
    "throughput",
    schemas.THROUGHPUT,
    "minute",
    lambda new: gold.throughput(new.events),
    keys=("minute", "tenant", "queue", "type"),
    merges={
        **dict.fromkeys(gold.COUNTED_EVENTS, sf.sum),
        **_merged_distribution("wait"),
        **_merged_distribution("run"),
    },
    bucket_seconds=MINUTE_SECONDS,
    file_seconds=HOUR_SECONDS,
)
ERRORS: Final = Table(
    "errors",
    schemas.ERRORS,
    "date",
    lambda new: gold.errors(new.attempts),
    keys=("date", "tenant", "queue", "type", "kind", "fingerprint"),
    merges={
        "count": sf.sum,
        "first_at": sf.min,
        "last_at": sf.max,
        "example": _of_the_first,
        "example_traceback": _of_the_first,
        "example_id": _of_the_first,
        "example_position": sf.min,
    },
)
WORKERS: Final = Table(
    "workers",
    schemas.WORKERS,
    "hour",
    lambda new: gold.workers(new.attempts),
    keys=("hour", "tenant", "worker"),
    merges={
        **dict.fromkeys(("attempts", "completed", "failed"), sf.sum),
        "busy_seconds": _seconds_added,
        "first_at": sf.min,
        "last_at": sf.max,
    },
    bucket_seconds=HOUR_SECONDS,
)


def _cost(prices: Prices) -> Table:
    return Table(
        "cost",
        schemas.COST,
        "hour",
        lambda new: gold.cost(new.commits, new.events, prices),
        keys=("hour",),
        merges=dict.fromkeys(
            ("commits", "put_requests", "events", "jobs_ended", "bytes_written"), sf.sum
        ),
        derive=lambda rows: gold.priced(rows, prices),
        bucket_seconds=HOUR_SECONDS,
    )


def _slo(objectives: Objectives) -> Table:
    held_to = ("wait_seconds_max", "run_seconds_max", "success_target")
    return Table(
        "slo",
        schemas.SLO,
        "date",
        lambda new: gold.slo(new.attempts, objectives),
        keys=("date", "tenant", "queue", "type", *held_to),
        merges=dict.fromkeys(
            ("jobs", "succeeded", "within_wait", "within_run", "within_both"), sf.sum
        ),
        derive=gold.judged,
    )
