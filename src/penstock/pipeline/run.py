"""Keeps a warehouse of tables up with a queue: once, every so often, or as a streaming query.

Whatever is killed, and wherever, the next run gives the same tables: each table knows by itself how
far it is, and the queue keeps its log until the last of them has it.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.address import parse
from penstock.errors import InvalidInput, SparkFailed
from penstock.pipeline.consumer import Consumer, opened_consumer
from penstock.pipeline.failures import sentence
from penstock.pipeline.feed import Feed
from penstock.pipeline.feeds.opening import opened_feed
from penstock.pipeline.filling import Filling, OnStep, Read
from penstock.pipeline.tables import tables
from penstock.pipeline.transforms.gold import Objectives, Prices
from penstock.pipeline.warehouse.marker import make_warehouse_marker, read_warehouse_marker
from penstock.pipeline.warehouse.opening import FORMATS, warehouse_of
from penstock.pipeline.warehouse.place import Place, opened_place
from penstock.ports.clock import Clock
from penstock.runtime.services import Services

COMMITS_PER_INCREMENT_MAX: Final = 50_000
"""A backlog is taken in pieces of this size, so that being killed costs no more than one."""
STREAM_SECONDS: Final = 5
"""How often a streaming run takes what is new."""
MOVE_SECONDS: Final = 60.0
"""How often a streaming run says how far it is: each time is a commit."""


@dataclass(frozen=True)
class Plan:
    """What a run is to do."""

    url: str
    warehouse: str
    format: str = "delta"
    retain_days: int | None = None
    objectives: Objectives = field(default_factory=Objectives)
    prices: Prices = field(default_factory=Prices)
    commits_max: int = COMMITS_PER_INCREMENT_MAX

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InvalidInput(f"format={self.format}: known are {', '.join(FORMATS)}")
        if self.retain_days is not None and self.retain_days < 1:
            raise InvalidInput(f"retain_days={self.retain_days}: at least one day")

    @property
    def source(self) -> str:
        """The queue as Spark's processes find it, whichever folder they run in."""
        return parse(self.url, {}).absolute_url


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run did."""

    first_commit: int
    last_commit: int
    tables: dict[str, int]
    """How many rows each table gained."""
    seconds: float = 0.0

    def __add__(self, later: Summary) -> Summary:
        names = {**self.tables, **later.tables}
        rows = {name: self.tables.get(name, 0) + later.tables.get(name, 0) for name in names}
        seconds = self.seconds + later.seconds
        return Summary(self.first_commit, later.last_commit, rows, seconds)


class Pipeline:
    """A queue, a warehouse and what leads from one to the other; made by `opened_pipeline`."""

    def __init__(
        self,
        spark: SparkSession,
        plan: Plan,
        consumer: Consumer,
        feed: Feed,
        filling: Filling,
        clock: Clock,
        on_step: OnStep,
    ) -> None:
        self._spark = spark
        self._plan = plan
        self._consumer = consumer
        self._feed = feed
        self._filling = filling
        self._clock = clock
        self._on_step = on_step

    def run_once(self, up_to: int | None = None) -> Summary:
        """Brings all tables up to the newest commit as of now, or up to the one that is named."""
        first = cursor = self._filling.cursor()
        self._consumer.require(cursor)
        head = self._feed.head(cursor)
        head = head if up_to is None else min(up_to, head)
        done = Summary(first + 1, cursor, {})
        if self._feed.is_idle(cursor, head):
            return done
        while cursor < head:
            target = self._feed.reach(cursor, head, self._plan.commits_max)
            with self._gaps_named(cursor):
                done += self._filled(target, self._feed.read)
            cursor = target
            self._on_step("moving the consumer")
            self._consumer.move(cursor)
        self._on_step("done")
        return done

    def run_every(self, seconds: float, on_run: Callable[[Summary], None]) -> None:
        """Again and again, with so long between two starts, until the process is stopped."""
        while True:
            started_at = self._clock.elapsed()
            on_run(self.run_once())
            rest = seconds - (self._clock.elapsed() - started_at)
            self._on_step("waiting")
            asyncio.run(self._clock.sleep(max(0.0, rest)))

    def run_stream(
        self,
        checkpoint: str | None = None,
        *,
        until_caught_up: bool = False,
        on_batch: Callable[[Summary], None] = lambda summary: None,
    ) -> None:
        """The same, driven by a streaming query, until it is stopped.

        The tables' cursors decide what counts, so a checkpoint that is lost, old or replayed
        changes nothing; without a folder for it, there is a temporary one. Where there are no
        commits that a query could go by, the tables are brought up as often by themselves.
        """
        cursor = self._filling.cursor()
        self._consumer.require(cursor)
        if self._feed.is_streamed:
            self._run_query(cursor, checkpoint, until_caught_up, on_batch)
        else:
            self._run_often(until_caught_up, on_batch)
        self._consumer.move(self._filling.cursor())

    def _run_query(
        self,
        cursor: int,
        checkpoint: str | None,
        until_caught_up: bool,
        on_batch: Callable[[Summary], None],
    ) -> None:
        place = nullcontext(checkpoint) if checkpoint else tempfile.TemporaryDirectory()
        with place as folder:
            reader = self._spark.readStream.format("penstock").option("url", self._plan.source)
            reader = reader.option("table", "events").option("from_commit", str(cursor + 1))
            writer = reader.load().writeStream.foreachBatch(self._batch_taker(on_batch))
            writer = writer.option("checkpointLocation", folder)
            if until_caught_up:
                writer = writer.trigger(availableNow=True)
            else:
                writer = writer.trigger(processingTime=f"{STREAM_SECONDS} seconds")
            query = writer.start()
            try:
                with self._gaps_named(cursor):
                    query.awaitTermination()
            finally:
                query.stop()

    def _run_often(self, until_caught_up: bool, on_batch: Callable[[Summary], None]) -> None:
        while True:
            started_at, cursor = self._clock.elapsed(), self._filling.cursor()
            head = self._feed.head(cursor)
            if not self._feed.is_idle(cursor, head):
                with self._gaps_named(cursor):
                    summary = self._filled(head, self._feed.read)
                self._move_if_silent()
                on_batch(summary)
            if until_caught_up:
                return
            rest = STREAM_SECONDS - (self._clock.elapsed() - started_at)
            asyncio.run(self._clock.sleep(max(0.0, rest)))

    def _batch_taker(self, on_batch: Callable[[Summary], None]) -> Callable[[DataFrame, int], None]:
        def take(batch: DataFrame, batch_id: int) -> None:
            ends = batch.agg(sf.min("commit").alias("first"), sf.max("commit").alias("last"))
            [row] = ends.collect()
            if row["last"] is None:
                return
            first, last = row["first"], row["last"]
            cursor = self._filling.cursor()
            if self._feed.is_idle(cursor, last):
                return
            summary = self._filled(last, self._reading_from(batch, first, last))
            self._move_if_silent()
            on_batch(summary)

        return take

    def _move_if_silent(self) -> None:
        if self._consumer.is_silent_for(MOVE_SECONDS):
            self._consumer.move(self._filling.cursor())

    def _filled(self, target: int, read: Read) -> Summary:
        started_at, cursor = self._clock.elapsed(), self._filling.cursor()
        filled = self._filling.fill(target, read)
        rows = {each.table: each.rows for each in filled}
        return Summary(cursor + 1, target, rows, self._clock.elapsed() - started_at)

    def _reading_from(self, batch: DataFrame, first: int, last: int) -> Read:
        """What the batch has is taken from it; the tables may need what came before it, too."""

        def read(table: str, start: int, end: int) -> DataFrame:
            if table == "events" and first <= start and end <= last:
                return batch.where(sf.col("commit").between(start, end))
            return self._feed.read(table, start, end)

        return read

    @contextmanager
    def _gaps_named(self, cursor: int) -> Iterator[None]:
        """If vacuum overtook the reader, that is said and not what Spark makes of it."""
        try:
            yield
        except PySparkException as error:
            self._consumer.require(cursor)
            raise SparkFailed("filling the tables", sentence(error)) from error


@contextmanager
def opened_pipeline(
    spark: SparkSession,
    plan: Plan,
    *,
    on_step: OnStep = lambda step: None,
    services: Services | None = None,
) -> Iterator[Pipeline]:
    """Registered with the queue before anything is read, so that vacuum waits from then on."""
    services = services or Services()
    with (
        opened_place(plan.warehouse) as place,
        opened_consumer(plan.url, place.name, services) as consumer,
    ):
        start = _start(place, consumer, plan.format, on_step)
        warehouse = warehouse_of(place, consumer.queue_id, plan.format)
        filling = Filling(
            spark,
            warehouse,
            tables(plan.objectives, plan.prices),
            start,
            services.clock,
            retain_days=plan.retain_days,
            on_step=on_step,
        )
        cursor = filling.cursor()
        # First: a consumer that stands below the floor would only keep vacuum from its work.
        consumer.require(cursor)
        on_step("registering the consumer")
        consumer.move(cursor)
        with opened_feed(spark, plan.source, consumer, place, start, services) as feed:
            yield Pipeline(spark, plan, consumer, feed, filling, services.clock, on_step)


def _start(place: Place, consumer: Consumer, kind: str, on_step: OnStep) -> int:
    """The first commit that the tables contain."""
    marker = read_warehouse_marker(place, consumer.queue_id, kind)
    if marker is None:
        # Registered first: what the marker promises must not be vacuumed in between.
        on_step("registering a new consumer")
        consumer.move(0)
        on_step("marking the warehouse")
        marker = make_warehouse_marker(place, consumer.queue_id, kind, consumer.floor())
    return marker.start
