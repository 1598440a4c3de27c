"""The batch reader: one look at the queue when the read is planned, then tasks over spans of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.errors import InvalidOption
from penstock.pipeline.source.chunks import Span
from penstock.pipeline.source.columns import Array
from penstock.pipeline.source.consuming import register_consumer
from penstock.pipeline.source.jobs import read_jobs
from penstock.pipeline.source.opening import QueueSource, opened
from penstock.pipeline.source.options import JOBS_TABLE, ReadOptions, require_columns
from penstock.pipeline.source.planning import plan
from penstock.pipeline.source.reading import read_span


class SpanPartition(InputPartition):
    def __init__(self, span: Span) -> None:
        super().__init__(span)
        self.span = span


class PenstockReader(DataSourceReader):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        require_columns(options, schema)
        if options.table == JOBS_TABLE:
            _require_state_options(options)
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        spans = asyncio.run(self._spans())
        # Of no partitions Spark would make one, without a span.
        return [SpanPartition(span) for span in spans or [Span(1, 0)]]

    def read(self, partition: InputPartition) -> Iterator[Array]:
        assert isinstance(partition, SpanPartition)
        if not partition.span:
            return iter(())
        if self._options.table == JOBS_TABLE:
            return read_jobs(self._options, self._schema, partition.span)
        return read_span(self._options, self._schema, partition.span)

    async def _spans(self) -> list[Span]:
        options = self._options
        async with opened(options.address) as source:
            span = await plan(source, options, await source.bounds())
            if options.consumer is not None:
                await register_consumer(options.address, options.consumer, span.first)
            if options.table == JOBS_TABLE:
                return [span]
            return source.partitions(await self._narrowed(source, span), options.partitions)

    async def _narrowed(self, source: QueueSource, span: Span) -> Span:
        """What is left of the span once the query's own filters are known; here none are."""
        return span


def _require_state_options(options: ReadOptions) -> None:
    for name in ("from_commit", "to_commit", "since", "until"):
        if getattr(options, name) is not None:
            raise InvalidOption(
                name, getattr(options, name), "the table jobs is a state: say when with as_of"
            )
