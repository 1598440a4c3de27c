"""Reading ranges of events out of objects, side by side: each task has some of the objects."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession

from penstock.address import parse
from penstock.engines.records.tasks.documents import in_parallel
from penstock.engines.records.tasks.reaches import Reaches
from penstock.errors import Corrupt
from penstock.kernel.events import Event
from penstock.pipeline.feeds.looks import Range
from penstock.pipeline.mapping import mapped
from penstock.pipeline.schemas import EVENTS
from penstock.pipeline.source.chunks import Chunk, chunk_of
from penstock.pipeline.source.loops import drain
from penstock.pipeline.source.opening import opened_store
from penstock.pipeline.source.options import ReadOptions
from penstock.pipeline.source.reading import batches, maker_of
from penstock.runtime.services import Services

OBJECTS_PER_TASK: Final = 1_000
"""Fewer than this are not worth a task of their own."""
OBJECTS_AT_ONCE: Final = 500


def read_ranges(spark: SparkSession, url: str, ranges: Sequence[Range]) -> DataFrame:
    """The table `events` of these ranges."""
    rows = [(each.key, each.after, each.up_to) for each in ranges]
    frame = spark.createDataFrame(rows, "key string, after long, up_to long")
    tasks = min(os.cpu_count() or 1, -(-len(rows) // OBJECTS_PER_TASK))
    return mapped(frame.repartition(max(tasks, 1)), RangeRead(url=url), EVENTS)


class RangeRead(Struct, frozen=True, kw_only=True):
    """What runs in a task."""

    url: str

    def __call__(self, given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ranges = [Range(**row) for batch in given for row in batch.to_pylist()]
        builder, rows = maker_of(ReadOptions(address=parse(self.url, {})), EVENTS)
        return batches(builder, (rows(chunk) for chunk in drain(self._chunks(ranges))))

    async def _chunks(self, ranges: Sequence[Range]) -> AsyncGenerator[Chunk]:
        services = Services()
        async with opened_store(parse(self.url, {}), services) as store:
            reaches = Reaches(store, services)
            for first in range(0, len(ranges), OBJECTS_AT_ONCE):
                some = ranges[first : first + OBJECTS_AT_ONCE]
                read = await in_parallel(lambda one: _events(reaches, one), some)
                for wanted, events in zip(some, read, strict=True):
                    if events:
                        yield chunk_of(wanted.key, events)


async def _events(reaches: Reaches, wanted: Range) -> list[Event]:
    """Fewer than there were if heartbeats have been trimmed since."""
    events = await reaches.events(wanted.key)
    if not events or events[-1].position < wanted.up_to:
        raise Corrupt(wanted.key, f"its event at {wanted.up_to}, which was seen, is gone")
    return [event for event in events if wanted.after < event.position <= wanted.up_to]
