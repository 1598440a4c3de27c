"""Import objects as bytes: one row a line, segment after segment, chunk after chunk.

The object has no head: what is where stands in the manifest, with the digest of the whole, and is
published by a commit. So an object that is truncated or altered is seen when it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

from penstock.errors import Corrupt
from penstock.kernel.manifest import (
    CHUNK_BYTES_MAX,
    CHUNK_ROWS_MAX,
    Chunk,
    ChunkPlace,
    ImportObject,
    Row,
    SegmentRecord,
)
from penstock.wire.level import UNREADABLE, digest

Group: TypeAlias = tuple[str, str, str, int]
"""What a segment's rows have in common: tenant, queue, type and priority."""

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Row)


def encode_rows(
    groups: Iterable[tuple[Group, list[Row]]], chunk_rows_max: int = CHUNK_ROWS_MAX
) -> tuple[bytes, list[SegmentRecord]]:
    """The lines of one object, and its segments. Sorts the rows of each group by `run_at`."""
    parts: list[bytes] = []
    segments: list[SegmentRecord] = []
    offset = 0
    for (tenant, queue, type, priority), rows in groups:
        rows.sort(key=_due)
        chunks: list[Chunk] = []
        size_bytes = 0
        for start, end in _cuts(rows, chunk_rows_max):
            lines = _encoder.encode_lines(rows[start:end])
            parts.append(lines)
            chunks.append(Chunk(len(lines), end - start, _due(rows[start])))
            size_bytes += len(lines)
        segments.append(SegmentRecord(queue, type, tuple(chunks), priority, offset, tenant))
        offset += size_bytes
    return b"".join(parts), segments


def object_record(key: str, data: bytes, segments: Sequence[SegmentRecord]) -> ImportObject:
    return ImportObject(key, digest(data), tuple(segments))


def require_object(key: str, data: bytes, expected: str) -> None:
    """Refuses an object that is not the one that was written."""
    if digest(data) != expected:
        raise Corrupt(key, "its digest is not the published one: truncated or altered")


def decode_chunk(place: ChunkPlace, data: bytes) -> list[Row]:
    """The rows of one chunk, out of the whole object."""
    part = data[place.offset : place.offset + place.size_bytes]
    try:
        rows = _decoder.decode_lines(part)
    except UNREADABLE as error:
        raise Corrupt(
            place.key, f"row {place.first} or one after it can't be read ({error})"
        ) from error
    if len(rows) != place.rows:
        raise Corrupt(place.key, f"a chunk of it has {len(rows)} rows and should have {place.rows}")
    return rows


def _due(row: Row) -> float:
    return row.run_at or 0.0


def _cuts(rows: Sequence[Row], rows_max: int) -> Iterable[tuple[int, int]]:
    """Where the chunks begin and end."""
    start = size_bytes = 0
    for index, row in enumerate(rows):
        size = len(row.payload)
        is_full = index - start == rows_max or size_bytes + size > CHUNK_BYTES_MAX
        if is_full and index > start:
            yield start, index
            start, size_bytes = index, 0
        size_bytes += size
    if rows:
        yield start, len(rows)
