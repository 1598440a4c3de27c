"""The ends of attempts and of jobs: each is one event, so these are maps."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from penstock.pipeline.schemas import ATTEMPTS, EVENTS, JOBS
from penstock.pipeline.transforms.moments import seconds_between

JOB_ENDS: Final = ("completed", "failed", "cancelled")
ATTEMPT_ENDS: Final = (*JOB_ENDS, "retried", "expired", "released", "snoozed")


def attempts(events: DataFrame) -> DataFrame:
    """One row per attempt that ended."""
    columns = {
        "outcome": sf.col("event"),
        "ended_at": sf.col("at"),
        "wait_seconds": seconds_between(sf.col("due_at"), sf.col("started_at")),
        "run_seconds": seconds_between(sf.col("started_at"), sf.col("at")),
    }
    ended = events.where(ends_an_attempt())
    return ended.select(
        *(columns.get(name, sf.col(name)).alias(name) for name in ATTEMPTS.fieldNames())
    )


def ends_an_attempt() -> Column:
    """Whether an attempt was under way that the event ended.

    A job that is cancelled while it waits for its next attempt names the start of the one before,
    and as due a time after that.
    """
    was_running = sf.col("started_at").isNotNull() & (sf.col("due_at") <= sf.col("started_at"))
    return sf.col("event").isin(*ATTEMPT_ENDS) & (was_running | ~sf.col("event").isin("cancelled"))


def jobs(events: DataFrame) -> DataFrame:
    """One row per (tenant, id, life, ending); a job that was replayed ends again."""
    ended = events.where(sf.col("event").isin(*JOB_ENDS))
    ended = ended.withColumn("errors", _errors())
    last_error = sf.try_element_at("errors", sf.lit(-1))
    columns = {
        "state": sf.col("event"),
        "run_at": sf.col("due_at"),
        "ended_at": sf.col("at"),
        "kind": last_error["kind"],
        "error": last_error["message"],
    }
    return ended.select(
        *(
            columns.get(field.name, _of_event(field.name)).cast(field.dataType).alias(field.name)
            for field in JOBS.fields
        )
    )


def _errors() -> Column:
    """Those of all attempts; the event that says a job failed has the last one apart."""
    last = sf.struct(
        sf.col("attempt"), sf.col("at"), sf.col("kind"), sf.col("error").alias("message")
    )
    return sf.when(sf.col("event") == "failed", sf.array_append("errors", last)).otherwise(
        sf.col("errors")
    )


def _of_event(name: str) -> Column:
    """The event's own field; what only a live job has is absent from an ending."""
    return sf.col(name) if name in EVENTS.names else sf.lit(None)
