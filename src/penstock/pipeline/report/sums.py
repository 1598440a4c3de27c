"""Gold tables, added up further for a report: pure, frame to frame, and small in the end.

Every column of a result is a field of a row in `rows`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from penstock.pipeline.report.buckets import Bucket
from penstock.pipeline.transforms.moments import bucket as start_of_bucket
from penstock.pipeline.transforms.moments import seconds_added

COUNTS: Final = (
    "enqueued", "started", "completed", "failed", "retried", "expired", "cancelled",
)  # fmt: skip
RANKS: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def total(throughput: DataFrame) -> DataFrame:
    return throughput.agg(*_traffic())


def moments(throughput: DataFrame, bucket: Bucket) -> DataFrame:
    return throughput.groupBy(_start("minute", bucket)).agg(*_traffic())


def kinds(throughput: DataFrame) -> DataFrame:
    return throughput.groupBy("queue", "type").agg(*_traffic())


def hours(throughput: DataFrame) -> DataFrame:
    completed = sf.sum("completed").alias("completed")
    return throughput.groupBy(_start("minute", Bucket.HOUR)).agg(completed)


def failures(errors: DataFrame) -> DataFrame:
    return errors.groupBy("kind", "fingerprint").agg(
        sf.sum("count").alias("count"),
        sf.array_sort(sf.collect_set("type")).alias("types"),
        sf.min("first_at").alias("first_at"),
        sf.max("last_at").alias("last_at"),
        sf.coalesce(sf.min_by("example", "example_position"), sf.lit("")).alias("example"),
        sf.coalesce(sf.min_by("example_id", "example_position"), sf.lit("")).alias("example_id"),
    )


def workers(workers: DataFrame) -> DataFrame:
    return workers.groupBy(sf.col("hour").alias("at"), "worker").agg(
        *(sf.sum(name).alias(name) for name in ("attempts", "completed", "failed")),
        sf.coalesce(seconds_added(sf.col("busy_seconds")), sf.lit(0.0)).alias("busy_seconds"),
        # An attempt that began before the hour made its worker present from the hour's start.
        sf.greatest("hour", sf.coalesce(sf.min("first_at"), "hour")).alias("first_at"),
        sf.coalesce(sf.max("last_at"), "hour").alias("last_at"),
    )


def cost(cost: DataFrame) -> DataFrame:
    """Of hours in which requests were counted: layout `log` does, others do not."""
    names = ("put_requests", "bytes_written", "jobs_ended", "dollars")
    return (
        cost.where(sf.col("dollars").isNotNull())
        .groupBy(sf.col("hour").alias("at"))
        .agg(*(sf.sum(name).alias(name) for name in names))
    )


def objectives(slo: DataFrame) -> DataFrame:
    names = ("jobs", "succeeded", "within_wait", "within_run", "within_both")
    keys = ("date", "queue", "type", "wait_seconds_max", "run_seconds_max", "success_target")
    return slo.groupBy(*keys).agg(*(sf.sum(name).alias(name) for name in names))


def _start(column: str, bucket: Bucket) -> Column:
    return start_of_bucket(sf.col(column), int(bucket.length.total_seconds())).alias("at")


def _traffic() -> list[Column]:
    counts = [sf.coalesce(sf.sum(name), sf.lit(0)).alias(name) for name in COUNTS]
    return [*counts, _quantiles("wait"), _quantiles("run")]


def _quantiles(name: str) -> Column:
    """Null where nothing was measured: an empty sketch has no quantiles."""
    measured = sf.when(sf.col(f"{name}_count") > 0, sf.col(f"{name}_sketch"))
    merged = sf.kll_merge_agg_double(measured)
    known = sf.count(measured) > 0
    # Fields that may be null too, or Arrow refuses a struct that is.
    each = [
        sf.when(known, sf.kll_sketch_get_quantile_double(merged, sf.lit(rank))).alias(label)
        for label, rank in RANKS.items()
    ]
    return sf.when(known, sf.struct(*each)).alias(name)
