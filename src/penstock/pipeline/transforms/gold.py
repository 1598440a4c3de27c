"""Counts and sums over keys, of the rows of one increment. `tables` says how they merge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from penstock.pipeline.transforms.endings import ATTEMPT_ENDS, JOB_ENDS, ends_an_attempt
from penstock.pipeline.transforms.fingerprints import fingerprint
from penstock.pipeline.transforms.imports import bytes_written, imported, objects_written
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
    """What happened in each minute. Waits count when they are over, runs when they end.

    Imported jobs are enqueued when their run is published; that they are admitted later, when
    a claim comes upon them, is not counted again.
    """
    counted = events.where(sf.col("event").isin(*COUNTED_EVENTS.values()))
    wait = seconds_between(sf.col("run_at"), sf.col("at"))
    run = seconds_between(sf.col("started_at"), sf.col("at"))
    minute = bucket(sf.col("at"), MINUTE_SECONDS).alias("minute")
    one_each = counted.select(
        *(minute, "tenant", "queue", "type", "event"),
        sf.when(sf.col("event") == "claimed", wait).alias("wait"),
        sf.when(ends_an_attempt(), run).alias("run"),
        sf.lit(1).cast("long").alias("jobs"),
    )
    many_at_once = imported(events).select(
        *(minute, "tenant", "queue", "type", sf.lit("enqueued").alias("event")),
        *(sf.lit(None).cast("double").alias(name) for name in ("wait", "run")),
        "jobs",
    )
    rows = one_each.unionByName(many_at_once)
    return rows.groupBy("minute", "tenant", "queue", "type").agg(
        *(_jobs_with(event).alias(column) for column, event in COUNTED_EVENTS.items()),
        *_distribution("wait"),
        *_distribution("run"),
    )


def _jobs_with(event: str) -> Column:
    return sf.sum(sf.when(sf.col("event") == event, sf.col("jobs")).otherwise(sf.lit(0)))


def _distribution(name: str) -> tuple[Column, ...]:
    return (
        sf.count(name).alias(f"{name}_count"),
        sf.coalesce(seconds_added(sf.col(name)), sf.lit(0.0)).alias(f"{name}_seconds_sum"),
        sf.max(name).alias(f"{name}_seconds_max"),
        sf.kll_sketch_agg_double(name).alias(f"{name}_sketch"),
    )


def errors(attempts: DataFrame) -> DataFrame:
    """Failed attempts by day and by what their messages have in common."""
    failed = attempts.where(sf.col("outcome").isin(*FAILED_ATTEMPTS))
    rows = failed.select(
        date(sf.col("ended_at")).alias("date"),
        "tenant",
        "queue",
        "type",
        sf.coalesce("kind", sf.lit("")).alias("kind"),
        fingerprint(sf.coalesce("error", sf.lit(""))).alias("fingerprint"),
        "ended_at",
        sf.left("error", sf.lit(EXAMPLE_CHARACTERS_MAX)).alias("error"),
        "traceback",
        "id",
        "position",
    )
    return rows.groupBy("date", "tenant", "queue", "type", "kind", "fingerprint").agg(
        sf.count("*").alias("count"),
        sf.min("ended_at").alias("first_at"),
        sf.max("ended_at").alias("last_at"),
        sf.min_by("error", "position").alias("example"),
        sf.min_by("traceback", "position").alias("example_traceback"),
        sf.min_by("id", "position").alias("example_id"),
        sf.min("position").alias("example_position"),
    )


def workers(attempts: DataFrame) -> DataFrame:
    """What each worker did in each hour; attempts count in the hour in which they end."""
    rows = attempts.select(
        bucket(sf.col("ended_at"), HOUR_SECONDS).alias("hour"),
        "tenant",
        sf.coalesce("worker", sf.lit("")).alias("worker"),
        "outcome",
        "run_seconds",
        "started_at",
        "ended_at",
    )
    return rows.groupBy("hour", "tenant", "worker").agg(
        sf.count("*").alias("attempts"),
        sf.count_if(sf.col("outcome") == "completed").alias("completed"),
        sf.count_if(sf.col("outcome").isin(*FAILED_ATTEMPTS)).alias("failed"),
        seconds_added(sf.col("run_seconds")).alias("busy_seconds"),
        sf.min("started_at").alias("first_at"),
        sf.max("ended_at").alias("last_at"),
    )


def cost(commits: DataFrame, events: DataFrame, prices: Prices) -> DataFrame:
    """What the queue wrote in each hour. Reads leave no trace in the log.

    Requests, bytes and dollars are those of layout `log`, where a commit is an object that weighs
    something. Elsewhere nobody counts them, so they are null.
    """
    hour = bucket(sf.col("at"), HOUR_SECONDS).alias("hour")
    is_checkpoint = (sf.col("event") == "checkpointed").cast("long")
    side_objects = [sf.col(name).isNotNull().cast("long") for name in ("payload_key", "result_key")]
    none = sf.lit(0).cast("long")
    of_commits = commits.select(
        hour,
        sf.lit(1).cast("long").alias("commits"),
        sf.lit(1).cast("long").alias("put_requests"),
        sf.col("events"),
        none.alias("jobs_ended"),
        sf.col("size_bytes").alias("bytes_written"),
        sf.col("size_bytes").isNotNull().alias("is_known"),
    )
    of_events = events.select(
        hour,
        none.alias("commits"),
        (is_checkpoint + side_objects[0] + side_objects[1] + objects_written("objects")).alias(
            "put_requests"
        ),
        none.alias("events"),
        sf.col("event").isin(*JOB_ENDS).cast("long").alias("jobs_ended"),
        (sf.coalesce("size_bytes", none) + bytes_written("objects")).alias("bytes_written"),
        sf.lit(None).cast("boolean").alias("is_known"),
    )
    counted = [sf.sum(name).alias(name) for name in ("commits", "events", "jobs_ended")]
    weighed = [
        sf.when(sf.bool_and("is_known"), sf.sum(name)).alias(name)
        for name in ("put_requests", "bytes_written")
    ]
    summed = of_commits.unionByName(of_events).groupBy("hour").agg(*counted, *weighed)
    return priced(summed, prices)


def priced(cost: DataFrame, prices: Prices) -> DataFrame:
    months = prices.retention_days / 30
    put_dollars = sf.col("put_requests") * sf.lit(prices.put_dollars_per_million / 1e6)
    gigabytes = sf.col("bytes_written") / sf.lit(1e9)
    stored = gigabytes * sf.lit(prices.storage_dollars_per_gigabyte_month * months)
    per_million = sf.col("dollars") / sf.col("jobs_ended") * sf.lit(1e6)
    return cost.withColumn("dollars", put_dollars + stored).withColumn(
        "dollars_per_million_jobs", sf.when(sf.col("jobs_ended") > 0, per_million)
    )


def slo(attempts: DataFrame, objectives: Objectives) -> DataFrame:
    """Jobs that ended, cancelled ones aside, and how many kept to what they are held to."""
    ended = attempts.where(sf.col("outcome").isin("completed", "failed"))
    succeeded = sf.col("outcome") == "completed"
    in_wait = sf.col("wait_seconds") <= objectives.wait_seconds_max
    in_run = sf.col("run_seconds") <= objectives.run_seconds_max
    rows = ended.select(
        date(sf.col("ended_at")).alias("date"),
        "tenant",
        "queue",
        "type",
        sf.lit(objectives.wait_seconds_max).alias("wait_seconds_max"),
        sf.lit(objectives.run_seconds_max).alias("run_seconds_max"),
        sf.lit(objectives.success_target).alias("success_target"),
        succeeded.alias("succeeded"),
        in_wait.alias("in_wait"),
        in_run.alias("in_run"),
    )
    keys = ("wait_seconds_max", "run_seconds_max", "success_target")
    counted = rows.groupBy("date", "tenant", "queue", "type", *keys).agg(
        sf.count("*").alias("jobs"),
        sf.count_if("succeeded").alias("succeeded"),
        sf.count_if("in_wait").alias("within_wait"),
        sf.count_if("in_run").alias("within_run"),
        sf.count_if(sf.col("succeeded") & sf.col("in_wait") & sf.col("in_run")).alias(
            "within_both"
        ),
    )
    return judged(counted)


def judged(slo: DataFrame) -> DataFrame:
    return slo.withColumn("met", sf.col("within_both") >= sf.col("success_target") * sf.col("jobs"))
