"""The pipeline's flow as a Spark Declarative Pipelines definition.

The same transforms as `penstock pipeline run`, computed whole each time and kept by Spark's own
catalogue. For tables that grow by what is new, with a cursor each, use `penstock pipeline run`.
"""

from __future__ import annotations

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.transforms import endings, gold
from penstock.pipeline.transforms.gold import Objectives


def active() -> SparkSession:
    spark = SparkSession.active()
    assert spark is not None
    return spark


@dp.materialized_view
def events() -> DataFrame:
    return active().read.format("penstock").option("url", os.environ["QUEUE_URL"]).load()


@dp.materialized_view
def attempts() -> DataFrame:
    return endings.attempts(active().table("events"))


@dp.materialized_view
def jobs() -> DataFrame:
    return endings.jobs(active().table("events"))


@dp.materialized_view
def throughput() -> DataFrame:
    return gold.throughput(active().table("events"))


@dp.materialized_view
def errors() -> DataFrame:
    return gold.errors(active().table("attempts"))


@dp.materialized_view
def slo() -> DataFrame:
    return gold.slo(active().table("attempts"), Objectives())
