"""Pieces of a queue that has no common order of events: layout `tasks`.

There an event may be stored after others that have a later time and a higher position. So nothing
is told from those. A look finds out how far the events of each object go, and writes that down in
the warehouse before anything is read: under the condition that nobody else has, so that looks come
one after the other. What an object has beyond the look before is in this piece, and in no other.

Killed before it is written down, a look has not happened. Killed after it, the tables that do not
have the piece yet read the same ranges again: vacuum keeps what was put after the last move of any
consumer, and a consumer is moved once all tables have the piece.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.engines.records.tasks.names import CHARTER
from penstock.engines.records.tasks.reaches import Found, Reaches
from penstock.errors import ForeignWarehouse, PreconditionFailed, PutUnknown, WarehouseBusy
from penstock.kernel.events import ConsumerMoved
from penstock.pipeline.consumer import KEEP_ALIVE_SECONDS, Consumer
from penstock.pipeline.feeds.looks import LOOKS, Look, stored_looks
from penstock.pipeline.feeds.ranges import read_ranges
from penstock.pipeline.schemas import COMMITS
from penstock.pipeline.warehouse.place import Place

TRIES_MAX: Final = 10


class LookFeed:
    is_streamed = False

    def __init__(
        self,
        spark: SparkSession,
        url: str,
        consumer: Consumer,
        reaches: Reaches,
        place: Place,
        start: int,
    ) -> None:
        self._spark = spark
        self._url = url
        self._consumer = consumer
        self._reaches = reaches
        self._place = place
        self._start = start
        self._last: tuple[tuple[int, int], DataFrame] | None = None
        """The piece that was read last: its commits are made of its events."""

    def head(self, cursor: int) -> int:
        """Looks, and says by which number that is known; an earlier one if nothing is new."""
        for _ in range(TRIES_MAX):
            kept = stored_looks(self._place, self._start)
            looks = kept.looks
            if not looks.knows(cursor):
                problem = f"its {LOOKS} says nothing of {cursor}, which its tables are up to"
                raise ForeignWarehouse(self._place.name, problem)
            # Before it: what is put from now on may be missed, and the consumer is to say so.
            number = self._consumer.head()
            known = looks.reached(looks.newest)
            found = self._consumer.loop.run(self._reaches.found(known))
            if self._is_nothing_new(found, known):
                return looks.newest
            look = Look(max(number, looks.newest + 1), found.further)
            try:
                kept.replace(self._place, looks.with_look(look, cursor, found.gone))
            except (PreconditionFailed, PutUnknown):
                # Somebody else looked, or this did: whatever is there now is gone on from.
                continue
            return look.number
        raise WarehouseBusy(f"{self._place.name}/{LOOKS}", TRIES_MAX)

    def reach(self, cursor: int, head: int, commits_max: int) -> int:
        return head

    def is_idle(self, cursor: int, head: int) -> bool:
        return head <= cursor

    def read(self, table: str, first: int, last: int) -> DataFrame:
        events = self._events(first - 1, last)
        return events if table == "events" else commits_of(events)

    def _events(self, after: int, up_to: int) -> DataFrame:
        if self._last is None or self._last[0] != (after, up_to):
            ranges = stored_looks(self._place, self._start).looks.ranges(after, up_to)
            self._last = (after, up_to), read_ranges(self._spark, self._url, ranges)
        return self._last[1]

    def _is_nothing_new(self, found: Found, known: dict[str, int]) -> bool:
        if not found.further:
            return True
        if set(found.further) != {CHARTER} or self._consumer.is_silent_for(KEEP_ALIVE_SECONDS):
            return False
        events = self._consumer.loop.run(self._reaches.events(CHARTER))
        return all(
            isinstance(event, ConsumerMoved) and event.consumer == self._consumer.name
            for event in events or ()
            if event.position > known.get(CHARTER, 0)
        )


def commits_of(events: DataFrame) -> DataFrame:
    """Each event as a commit: several may be put at once, but nothing tells which."""
    known = {"commit": sf.col("commit"), "at": sf.col("at"), "events": sf.lit(1)}
    return events.select(
        *(
            known.get(field.name, sf.lit(None)).cast(field.dataType).alias(field.name)
            for field in COMMITS.fields
        )
    )
