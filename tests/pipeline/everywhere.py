"""Everything that Spark does with a queue, on a master and queues that the arguments name.

A process of its own, since one process has one session. Says as JSON what it saw of each queue.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import penstock.spark
from penstock.pipeline.run import Plan, opened_pipeline
from penstock.pipeline.warehouse.reading import create_views

JOBS = 2_000


def main(master: str, stumbles: str, *urls: str) -> None:
    spark = penstock.spark.session(master)
    sys.stdout.write(json.dumps([seen(spark, url, stumbles == "stumbles") for url in urls]))
    spark.stop()


def seen(spark: SparkSession, url: str, stumbles: bool) -> dict[str, Any]:
    place, _, options = url.partition("?")
    queue, warehouse = f"{place}/queue?{options}", f"{place}/warehouse?{options}"
    frame = jobs(spark, stumbles)
    for _ in range(2):
        frame.write.format("penstock").options(url=queue, run="once").mode("append").save()
    report = penstock.spark.run(
        "tests.pipeline.spark_tasks:app", queue, spark=spark, tasks=2, burst=True
    )
    with opened_pipeline(spark, Plan(queue, warehouse)) as pipeline:
        pipeline.run_once()
        pipeline.run_once()
    create_views(spark, warehouse)
    return {
        "completed by workers": report.total.completed,
        "read": counts(read(spark, queue, "jobs"), "state"),
        "attempts": counts(read(spark, queue, "attempts"), "outcome"),
        "jobs": counts(spark.table("jobs"), "state"),
        "throughput": sums(spark.table("throughput"), "enqueued", "started", "completed"),
        "violations": [row.asDict() for row in penstock.spark.check(queue, spark=spark).collect()],
    }


def jobs(spark: SparkSession, stumbles: bool) -> DataFrame:
    numbers = spark.range(JOBS, numPartitions=4).select(
        sf.lit("square").alias("type"), sf.struct(sf.col("id").alias("number")).alias("payload")
    )
    return numbers.mapInArrow(stumble, numbers.schema) if stumbles else numbers


def stumble(batches: Iterator[Any]) -> Iterator[Any]:
    """Half of the tasks fail at first, after they have written something."""
    context = TaskContext.get()
    assert context is not None
    yield from batches
    if context.partitionId() % 2 and context.attemptNumber() == 0:
        raise RuntimeError("this task fails on purpose")


def read(spark: SparkSession, url: str, table: str) -> DataFrame:
    return spark.read.format("penstock").options(url=url, table=table).load()


def counts(frame: DataFrame, column: str) -> dict[str, int]:
    return {row[column]: row["count"] for row in frame.groupBy(column).count().collect()}


def sums(frame: DataFrame, *columns: str) -> dict[str, int]:
    (row,) = frame.agg(*(sf.sum(name).alias(name) for name in columns)).collect()
    return row.asDict()


if __name__ == "__main__":
    main(*sys.argv[1:])
