"""Counts and sums over keys, of the rows of one increment. `tables` says how they merge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.pipeline.transforms.endings import ATTEMPT_ENDS, JOB_ENDS, ends_an_attempt
from penstock.pipeline.transforms.fingerprints import fingerprint
from penstock.pipeline.transforms.moments import (
    HOUR_SECONDS,
    MINUTE_SECONDS,
    bucket,
    date,
    seconds_added,
    seconds_between,
)

EXAMPLE_CHARACTERS_MAX: Final = 1_000
FAILED_ATTEMPTS: Final = ("failed", "retried", "expired")
COUNTED_EVENTS: Final = {
    "enqueued": "enqueued",
    "started": "claimed",
    **{event: event for event in ATTEMPT_ENDS},
}
"""Each column of `throughput` that counts, and the event that it counts."""


@dataclass(frozen=True, slots=True)
class Objectives:
    """What jobs are held to: `success_target` is the share that must be good in both ways."""

    wait_seconds_max: float = 60.0
    run_seconds_max: float = 300.0
    success_target: float = 0.99


@dataclass(frozen=True, slots=True)
class Prices:
    """What a store charges; by default what S3 in Virginia does."""

    put_dollars_per_million: float = 5.0
    storage_dollars_per_gigabyte_month: float = 0.023
    retention_days: float = 7.0
    """How long what is written stays: the log's retention."""


def throughput(events: DataFrame) -> DataFrame:
    """What happened in each minute. Waits count when they are over, runs when they end."""
    counted = events.where(F.col("event").isin(*COUNTED_EVENTS.values()))
    wait = seconds_between(F.col("run_at"), F.col("at"))
    run = seconds_between(F.col("started_at"), F.col("at"))
    rows = counted.select(
        bucket(F.col("at"), MINUTE_SECONDS).alias("minute"),
        "tenant",
        "queue",
        "type",
        "event",
        F.when(F.col("event") == "claimed", wait).alias("wait"),
        F.when(ends_an_attempt(), run).alias("run"),
    )
    return rows.groupBy("minute", "tenant", "queue", "type").agg(
        *(
            F.count_if(F.col("event") == event).alias(column)
            for column, event in COUNTED_EVENTS.items()
        ),
        *_distribution("wait"),
        *_distribution("run"),
    )


def _distribution(name: str) -> tuple[Column, ...]:
    return (
        F.count(name).alias(f"{name}_count"),
        F.coalesce(seconds_added(F.col(name)), F.lit(0.0)).alias(f"{name}_seconds_sum"),
        F.max(name).alias(f"{name}_seconds_max"),
        F.kll_sketch_agg_double(name).alias(f"{name}_sketch"),
    )


def errors(attempts: DataFrame) -> DataFrame:
    """Failed attempts by day and by what their messages have in common."""
    failed = attempts.where(F.col("outcome").isin(*FAILED_ATTEMPTS))
    rows = failed.select(
        date(F.col("ended_at")).alias("date"),
        "tenant",
        "queue",
        "type",
        F.coalesce("kind", F.lit("")).alias("kind"),
        fingerprint(F.coalesce("error", F.lit(""))).alias("fingerprint"),
        "ended_at",
        F.left("error", F.lit(EXAMPLE_CHARACTERS_MAX)).alias("error"),
        "id",
        "position",
    )
    return rows.groupBy("date", "tenant", "queue", "type", "kind", "fingerprint").agg(
        F.count("*").alias("count"),
        F.min("ended_at").alias("first_at"),
        F.max("ended_at").alias("last_at"),
        F.min_by("error", "position").alias("example"),
        F.min_by("id", "position").alias("example_id"),
        F.min("position").alias("example_position"),
    )


def workers(attempts: DataFrame) -> DataFrame:
    """What each worker did in each hour; attempts count in the hour in which they end."""
    rows = attempts.select(
        bucket(F.col("ended_at"), HOUR_SECONDS).alias("hour"),
        "tenant",
        F.coalesce("worker", F.lit("")).alias("worker"),
        "outcome",
        "run_seconds",
        "started_at",
        "ended_at",
    )
    return rows.groupBy("hour", "tenant", "worker").agg(
        F.count("*").alias("attempts"),
        F.count_if(F.col("outcome") == "completed").alias("completed"),
        F.count_if(F.col("outcome").isin(*FAILED_ATTEMPTS)).alias("failed"),
        seconds_added(F.col("run_seconds")).alias("busy_seconds"),
        F.min("started_at").alias("first_at"),
        F.max("ended_at").alias("last_at"),
    )


def cost(commits: DataFrame, events: DataFrame, prices: Prices) -> DataFrame:
    """What the queue wrote in each hour. Reads leave no trace in the log."""
    hour = bucket(F.col("at"), HOUR_SECONDS).alias("hour")
    is_checkpoint = (F.col("event") == "checkpointed").cast("long")
    side_objects = [F.col(name).isNotNull().cast("long") for name in ("payload_key", "result_key")]
    none = F.lit(0).cast("long")
    of_commits = commits.select(
        hour,
        F.lit(1).cast("long").alias("commits"),
        F.lit(1).cast("long").alias("put_requests"),
        F.col("events"),
        none.alias("jobs_ended"),
        F.col("size_bytes").alias("bytes_written"),
    )
    of_events = events.select(
        hour,
        none.alias("commits"),
        (is_checkpoint + side_objects[0] + side_objects[1]).alias("put_requests"),
        none.alias("events"),
        F.col("event").isin(*JOB_ENDS).cast("long").alias("jobs_ended"),
        F.coalesce("size_bytes", none).alias("bytes_written"),
    )
    measures = ("commits", "put_requests", "events", "jobs_ended", "bytes_written")
    summed = (
        of_commits.unionByName(of_events)
        .groupBy("hour")
        .agg(*(F.sum(name).alias(name) for name in measures))
    )
    return priced(summed, prices)


def priced(cost: DataFrame, prices: Prices) -> DataFrame:
    months = prices.retention_days / 30
    put_dollars = F.col("put_requests") * F.lit(prices.put_dollars_per_million / 1e6)
    gigabytes = F.col("bytes_written") / F.lit(1e9)
    stored = gigabytes * F.lit(prices.storage_dollars_per_gigabyte_month * months)
    per_million = F.col("dollars") / F.col("jobs_ended") * F.lit(1e6)
    return cost.withColumn("dollars", put_dollars + stored).withColumn(
        "dollars_per_million_jobs", F.when(F.col("jobs_ended") > 0, per_million)
    )


def slo(attempts: DataFrame, objectives: Objectives) -> DataFrame:
    """Jobs that ended, cancelled ones aside, and how many kept to what they are held to."""
    ended = attempts.where(F.col("outcome").isin("completed", "failed"))
    succeeded = F.col("outcome") == "completed"
    in_wait = F.col("wait_seconds") <= objectives.wait_seconds_max
    in_run = F.col("run_seconds") <= objectives.run_seconds_max
    rows = ended.select(
        date(F.col("ended_at")).alias("date"),
        "tenant",
        "queue",
        "type",
        F.lit(objectives.wait_seconds_max).alias("wait_seconds_max"),
        F.lit(objectives.run_seconds_max).alias("run_seconds_max"),
        F.lit(objectives.success_target).alias("success_target"),
        succeeded.alias("succeeded"),
        in_wait.alias("in_wait"),
        in_run.alias("in_run"),
    )
    keys = ("wait_seconds_max", "run_seconds_max", "success_target")
    counted = rows.groupBy("date", "tenant", "queue", "type", *keys).agg(
        F.count("*").alias("jobs"),
        F.count_if("succeeded").alias("succeeded"),
        F.count_if("in_wait").alias("within_wait"),
        F.count_if("in_run").alias("within_run"),
        F.count_if(F.col("succeeded") & F.col("in_wait") & F.col("in_run")).alias("within_both"),
    )
    return judged(counted)


def judged(slo: DataFrame) -> DataFrame:
    return slo.withColumn("met", F.col("within_both") >= F.col("success_target") * F.col("jobs"))
