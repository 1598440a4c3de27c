"""The stream reader. An offset is the last commit that was taken: `{"commit": 42}`.

Where events are ordered per job only, commits are times, and an offset also has the commit that was
the newest when it was made. Whatever is stored after that with a place below the offset was missed,
and is told by an error.

Spark writes offsets down before it reads and reads the same span again after a crash, so whatever
is behind it sees each commit once. Nothing is acknowledged here: Spark calls `commit` at some time
after the batch, or never. Whoever has stored a batch moves the consumer on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock.errors import InvalidOption
from penstock.pipeline.source.batch import SpanPartition
from penstock.pipeline.source.chunks import Span
from penstock.pipeline.source.columns import Array
from penstock.pipeline.source.consuming import register_consumer
from penstock.pipeline.source.kept import BackendSource
from penstock.pipeline.source.opening import QueueSource, opened
from penstock.pipeline.source.options import ReadOptions, require_columns
from penstock.pipeline.source.planning import plan
from penstock.pipeline.source.reading import read_span

Offset = dict[str, int]
LOOKED: Final = "looked"


class PenstockStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    # The names and signatures are Spark's.

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        require_columns(options, schema)
        for name in ("as_of", "until", "pushdown"):
            if getattr(options, name):
                raise InvalidOption(name, getattr(options, name), "not of a stream, which goes on")
        self._options = options
        self._schema = schema
        self._newest: int | None = None
        self._stop_at: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        return asyncio.run(self._initial())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_commits_per_batch is not None:
            return ReadMaxFiles(self._options.max_commits_per_batch)
        if self._options.max_events_per_batch is not None:
            return ReadMaxRows(self._options.max_events_per_batch)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._stop_at = asyncio.run(self._head(0))

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        return asyncio.run(self._latest(start, limit))

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        return None if self._newest is None else _offset(self._newest)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        span = Span(_commit(start) + 1, _commit(end))
        return [SpanPartition(part) for part in asyncio.run(self._parts(span))]

    def read(self, partition: InputPartition) -> Iterator[Array]:
        assert isinstance(partition, SpanPartition)
        return read_span(self._options, self._schema, partition.span)

    def commit(self, end: Offset) -> None:
        """Too late or never called, so nothing depends on it."""

    async def _initial(self) -> Offset:
        options = self._options
        async with opened(options.address) as source:
            span = await plan(source, options, await source.bounds())
        if options.consumer is not None:
            await register_consumer(options.address, options.consumer, span.first)
        return _offset(span.first - 1)

    async def _head(self, after: int) -> int:
        async with opened(self._options.address) as source:
            return await source.settled((await source.bounds(after)).head)

    async def _latest(self, start: Offset, limit: ReadLimit) -> Offset:
        taken = _commit(start)
        async with opened(self._options.address) as source:
            head = (await source.bounds(taken)).head
            # After that: what is stored from now on is found when it is looked for again.
            if isinstance(source, BackendSource) and LOOKED in start:
                await source.require_none_late(taken, start[LOOKED])
            self._newest = await source.settled(head)
            ends = (self._newest, self._stop_at, self._options.to_commit)
            span = Span(taken + 1, min(end for end in ends if end is not None))
            is_loose = isinstance(source, BackendSource) and not source.is_ordered
            if isinstance(source, BackendSource) and is_loose:
                # Time goes on by itself: it is no news that nothing was at that time.
                span = await source.trimmed(span)
            if not span:
                return start
            looked = {LOOKED: head} if is_loose else {}
            return {**_offset(await _reached(source, span, limit)), **looked}

    async def _parts(self, span: Span) -> list[Span]:
        async with opened(self._options.address) as source:
            await source.bounds(span.first - 1)
            return source.partitions(span, self._options.partitions)


async def _reached(source: QueueSource, span: Span, limit: ReadLimit) -> int:
    match limit:
        case ReadMaxFiles():
            return await source.up_to_commits(span, limit.max_files)
        case ReadMaxRows():
            return await source.up_to_events(span, limit.max_rows)
        case _:
            return span.last


def _offset(commit: int) -> Offset:
    return {"commit": commit}


def _commit(offset: Offset) -> int:
    return offset["commit"]
