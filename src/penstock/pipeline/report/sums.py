"""Gold tables, added up further for a report: pure, frame to frame, and small in the end.

Every column of a result is a field of a row in `rows`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

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
    completed = F.sum("completed").alias("completed")
    return throughput.groupBy(_start("minute", Bucket.HOUR)).agg(completed)


def failures(errors: DataFrame) -> DataFrame:
    return errors.groupBy("kind", "fingerprint").agg(
        F.sum("count").alias("count"),
        F.array_sort(F.collect_set("type")).alias("types"),
        F.min("first_at").alias("first_at"),
        F.max("last_at").alias("last_at"),
        F.coalesce(F.min_by("example", "example_position"), F.lit("")).alias("example"),
        F.coalesce(F.min_by("example_id", "example_position"), F.lit("")).alias("example_id"),
    )


def workers(workers: DataFrame) -> DataFrame:
    return workers.groupBy(F.col("hour").alias("at"), "worker").agg(
        *(F.sum(name).alias(name) for name in ("attempts", "completed", "failed")),
        F.coalesce(seconds_added(F.col("busy_seconds")), F.lit(0.0)).alias("busy_seconds"),
        # An attempt that began before the hour made its worker present from the hour's start.
        F.greatest("hour", F.coalesce(F.min("first_at"), "hour")).alias("first_at"),
        F.coalesce(F.max("last_at"), "hour").alias("last_at"),
    )


def cost(cost: DataFrame) -> DataFrame:
    names = ("put_requests", "bytes_written", "jobs_ended", "dollars")
    return cost.groupBy(F.col("hour").alias("at")).agg(*(F.sum(name).alias(name) for name in names))


def objectives(slo: DataFrame) -> DataFrame:
    names = ("jobs", "succeeded", "within_wait", "within_run", "within_both")
    keys = ("date", "queue", "type", "wait_seconds_max", "run_seconds_max", "success_target")
    return slo.groupBy(*keys).agg(*(F.sum(name).alias(name) for name in names))


def _start(column: str, bucket: Bucket) -> Column:
    return start_of_bucket(F.col(column), int(bucket.length.total_seconds())).alias("at")


def _traffic() -> list[Column]:
    counts = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in COUNTS]
    return [*counts, _quantiles("wait"), _quantiles("run")]


def _quantiles(name: str) -> Column:
    """Null where nothing was measured: an empty sketch has no quantiles."""
    measured = F.when(F.col(f"{name}_count") > 0, F.col(f"{name}_sketch"))
    merged = F.kll_merge_agg_double(measured)
    known = F.count(measured) > 0
    # Fields that may be null too, or Arrow refuses a struct that is.
    each = [
        F.when(known, F.kll_sketch_get_quantile_double(merged, F.lit(rank))).alias(label)
        for label, rank in RANKS.items()
    ]
    return F.when(known, F.struct(*each)).alias(name)
