"""Which way leads from a queue to the tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from penstock.address import parse
from penstock.engines.records.tasks.reaches import Reaches
from penstock.pipeline.consumer import Consumer
from penstock.pipeline.feed import Feed
from penstock.pipeline.feeds.commits import CommitFeed
from penstock.pipeline.feeds.looking import LookFeed
from penstock.pipeline.warehouse.place import Place
from penstock.runtime.services import Services
from penstock.wiring import open_patient_store


@contextmanager
def opened_feed(
    spark: SparkSession, url: str, consumer: Consumer, place: Place, start: int, services: Services
) -> Iterator[Feed]:
    """`start` is the first commit that the tables contain."""
    if consumer.is_ordered:
        yield CommitFeed(spark, url, consumer)
        return
    store = open_patient_store(parse(url, {}), services)
    try:
        yield LookFeed(spark, url, consumer, Reaches(store, services), place, start - 1)
    finally:
        consumer.loop.run(store.close())
