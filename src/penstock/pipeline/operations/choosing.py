"""Which rows an operation is about."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.kernel.job import State
from penstock.pipeline.failures import predicate_checked

REPLAYABLE: Final = (State.FAILED.value, State.CANCELLED.value)


def queue_table(spark: SparkSession, url: str, table: str, tenant: str | None = None) -> DataFrame:
    options = {"url": url, "table": table, **({} if tenant is None else {"tenant": tenant})}
    return spark.read.format("penstock").options(**options).load()


def matching(rows: DataFrame, predicate: str | None) -> DataFrame:
    """Those of which a condition in Spark SQL is true."""
    if predicate is None:
        return rows
    with predicate_checked(predicate, rows.columns):
        chosen = rows.where(predicate)
        # Spark Connect looks at it only when it is asked.
        assert chosen.schema
    return chosen


def replayable(jobs: DataFrame) -> DataFrame:
    """Jobs whose last word is a failure or a cancellation; one row each."""
    newest = jobs.groupBy("tenant", "id").agg(sf.max_by(sf.struct("*"), "position").alias("job"))
    return newest.select("job.*").where(sf.col("state").isin(*REPLAYABLE))
