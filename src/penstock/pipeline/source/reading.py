"""What a task does: read its span of commits and make record batches of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from itertools import groupby
from typing import Any, Final

import msgspec
from msgspec import Struct
from pyspark.sql.types import StructType

from penstock.address import Address
from penstock.kernel.events import commit_of
from penstock.pipeline.source.chunks import Chunk, Span
from penstock.pipeline.source.columns import Array, Builder, Row
from penstock.pipeline.source.loops import drain
from penstock.pipeline.source.opening import opened
from penstock.pipeline.source.options import ReadOptions
from penstock.pipeline.source.planning import until_of
from penstock.pipeline.source.rows import RowDecoder
from penstock.pipeline.source.tables import (
    ATTEMPT_ENDS,
    ATTEMPT_FIELDS,
    ENDING_FIELDS,
    EVENT_FIELDS,
    JOB_ENDS,
    attempts_builder,
    ended_an_attempt,
    endings_builder,
    events_builder,
    fields_of,
)

ROWS_PER_BATCH: Final = 16_384

Rows = Callable[[Chunk], Sequence[Any]]


class CommitRow(Struct, frozen=True):
    commit: int
    at: float
    events: int
    commit_id: str | None = None
    writer: str | None = None
    epoch: int | None = None
    size_bytes: int | None = None


class _Place(Struct, frozen=True, gc=False):
    position: int
    at: float


_place_decoder: Final = msgspec.json.Decoder(_Place)


def read_span(options: ReadOptions, schema: StructType, span: Span) -> Iterator[Array]:
    """The rows of a table that these commits hold; of `jobs`, their endings."""
    builder, rows = maker_of(options, schema)
    return batches(builder, (rows(chunk) for chunk in drain(_chunks(options.address, span))))


def batches(builder: Builder, groups: Iterator[Sequence[Any]]) -> Iterator[Array]:
    """Groups of any size in batches of about the same one."""
    pending: list[Any] = []
    for group in groups:
        pending += group
        while len(pending) >= ROWS_PER_BATCH:
            yield builder.batch(pending[:ROWS_PER_BATCH])
            del pending[:ROWS_PER_BATCH]
    if pending:
        yield builder.batch(pending)


def maker_of(options: ReadOptions, schema: StructType) -> tuple[Builder, Rows]:
    """How a chunk becomes rows of the table, and how these become batches."""
    keep, asked = _filter(options)
    match options.table:
        case "events":
            fields = fields_of(schema.names, EVENT_FIELDS) | asked
            return events_builder(schema), RowDecoder(fields, keep=keep).rows
        case "attempts":
            fields = fields_of(schema.names, ATTEMPT_FIELDS) | asked | {"started_at", "due_at"}
            decoder = RowDecoder(fields, ATTEMPT_ENDS, keep)
            return attempts_builder(schema), lambda chunk: [
                row for row in decoder.rows(chunk) if ended_an_attempt(row)
            ]
        case "jobs":
            fields = fields_of(schema.names, ENDING_FIELDS) | asked | {"life"}
            return endings_builder(schema), RowDecoder(fields, JOB_ENDS, keep).rows
        case _:
            return Builder(schema, {}), lambda chunk: list(filter(keep, _commit_rows(chunk)))


def _commit_rows(chunk: Chunk) -> list[CommitRow]:
    header = chunk.header
    if header is None:
        places = groupby(
            _place_decoder.decode_lines(chunk.lines), lambda it: commit_of(it.position)
        )
        groups = [(commit, list(those)) for commit, those in places]
        return [CommitRow(commit, those[0].at, len(those)) for commit, those in groups]
    return [
        CommitRow(
            header.commit,
            header.at,
            header.events,
            header.commit_id,
            header.writer,
            header.epoch,
            chunk.size_bytes,
        )
    ]


def _filter(options: ReadOptions) -> tuple[Callable[[Row], bool] | None, set[str]]:
    """Which rows are asked for, and the fields that tell."""
    tests: list[Callable[[Row], bool]] = []
    fields: set[str] = set()
    until = until_of(options)
    for name in ("tenant", "queue"):
        if (wanted := getattr(options, name)) is not None and options.table != "commits":
            tests.append(_equals(name, wanted))
            fields.add(name)
    if (since := options.since) is not None:
        tests.append(lambda row: row.at >= since)
    if until is not None:
        tests.append(lambda row: row.at < until)
    if since is not None or until is not None:
        fields.add("at")
    if not tests:
        return None, fields
    return (lambda row: all(test(row) for test in tests)), fields


def _equals(name: str, wanted: str) -> Callable[[Row], bool]:
    return lambda row: getattr(row, name) == wanted


async def _chunks(address: Address, span: Span) -> AsyncGenerator[Chunk]:
    async with opened(address) as source, aclosing(source.chunks(span)) as chunks:
        async for chunk in chunks:
            yield chunk
