"""Pieces that are ranges of commits, of a queue whose commits are all in one order."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.consumer import Consumer
from penstock.pipeline.source.chunks import Span


class CommitFeed:
    is_streamed = True

    def __init__(self, spark: SparkSession, url: str, consumer: Consumer) -> None:
        self._spark = spark
        self._url = url
        self._consumer = consumer

    def head(self, cursor: int) -> int:
        return self._consumer.head()

    def reach(self, cursor: int, head: int, commits_max: int) -> int:
        if head - cursor <= commits_max:
            return head
        return self._consumer.reach(Span(cursor + 1, head), commits_max)

    def is_idle(self, cursor: int, head: int) -> bool:
        return self._consumer.is_idle(cursor, head)

    def read(self, table: str, first: int, last: int) -> DataFrame:
        reader = self._spark.read.format("penstock").option("url", self._url)
        reader = reader.option("table", table)
        return reader.option("from_commit", first).option("to_commit", last).load()
