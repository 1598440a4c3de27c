"""A segment and how far it is: which rows were admitted, and which chunk is the next.

Each segment has a *head* that stands in a lane for its next chunk, with the rank of that chunk's
first row. A claim that comes upon a head has the chunk admitted. Rows that were admitted ahead of
their turn, because somebody cancelled them, are skipped then. So a rank may promise too early (its
row may be gone) and never too late, and the order of claims is that of the rows.

Rows are numbered over all segments that a run has for one tenant; `{run}.{row}` is the job's id.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final

from msgspec import Struct

from penstock.kernel.job import Job
from penstock.kernel.manifest import Chunk, ChunkPlace, ImportObject, Row, SegmentRecord
from penstock.kernel.settings import Settings, with_defaults

SEPARATOR: Final = "."


def id_of(run: str, row: int) -> str:
    return f"{run}{SEPARATOR}{row}"


class Head(Struct, frozen=True, eq=False):
    """Stands in a lane for the jobs of its segment's next chunk, ranked as the first of them."""

    id: str
    tenant: str
    queue: str
    type: str
    priority: int
    run_at: float
    life: int
    source: int
    row: int
    segment: Segment

    def __lt__(self, other: object) -> bool:
        return False


class Segment:
    """The jobs of one tenant, queue, type and priority in one object, and how far they are."""

    __slots__ = (
        "_byte_starts", "_row_starts", "ahead", "chunk", "digest", "end", "first", "key", "reached",
        "record", "source",
    )  # fmt: skip

    def __init__(
        self, source: Source, key: str, digest: str, record: SegmentRecord, first: int
    ) -> None:
        self.source = source
        self.key = key
        self.digest = digest
        self.record = record
        self.first = first
        self.reached = first
        """The first row that was not admitted in its turn."""
        self.ahead: set[int] = set()
        """Rows after that which were admitted ahead of theirs."""
        self.chunk = 0
        self._row_starts = list(accumulate((c.rows for c in record.chunks), initial=first))
        self._byte_starts = list(
            accumulate((c.size_bytes for c in record.chunks), initial=record.offset)
        )
        self.end = self._row_starts[-1]

    @property
    def is_finished(self) -> bool:
        return self.reached == self.end

    @property
    def unadmitted(self) -> int:
        return self.end - self.reached - len(self.ahead)

    def holds(self, row: int) -> bool:
        """Whether the row waits here."""
        return self.reached <= row < self.end and row not in self.ahead

    def admit(self, row: int) -> bool:
        """Whether another chunk is the next one now."""
        if row != self.reached:
            self.ahead.add(row)
            return False
        row += 1
        while row in self.ahead:
            self.ahead.discard(row)
            row += 1
        return self.go_to(row)

    def go_to(self, row: int) -> bool:
        self.reached = row
        before, starts = self.chunk, self._row_starts
        while self.chunk < len(self.record.chunks) and starts[self.chunk + 1] <= row:
            self.chunk += 1
        return self.chunk != before

    def place(self, chunk: int) -> ChunkPlace:
        record = self.record.chunks[chunk]
        return ChunkPlace(
            self.key, self.digest, self._byte_starts[chunk], record.size_bytes,
            self._row_starts[chunk], record.rows,
        )  # fmt: skip

    def place_of(self, row: int) -> ChunkPlace:
        return self.place(bisect_right(self._row_starts, row) - 1)

    def waiting(self) -> Iterator[tuple[Chunk, ChunkPlace, int]]:
        """The chunks that have unadmitted rows, and how many."""
        for index in range(self.chunk, len(self.record.chunks)):
            place = self.place(index)
            rows = range(max(place.first, self.reached), place.first + place.rows)
            count = len(rows) - sum(row in rows for row in self.ahead)
            if count:
                yield self.record.chunks[index], place, count

    def scheduled(self, at: float) -> int:
        """How many rows wait in chunks that are not due by then: the last ones of the segment."""
        chunk = bisect_right(self.record.chunks, at, key=lambda chunk: chunk.run_at)
        first = max(self._row_starts[chunk], self.reached)
        return self.end - first - sum(row >= first for row in self.ahead)

    def head(self) -> Head:
        source, record, row = self.source, self.record, self._row_starts[self.chunk]
        run_at = max(record.chunks[self.chunk].run_at, source.at)
        return Head(
            id_of(source.run, row), source.tenant, record.queue, record.type, record.priority,
            run_at, source.position, source.position, row, self,
        )  # fmt: skip


class Source:
    """What one run has brought to one tenant and is not admitted yet."""

    __slots__ = ("at", "position", "run", "segments", "tenant")

    def __init__(self, tenant: str, run: str, position: int, at: float) -> None:
        self.tenant = tenant
        self.run = run
        self.position = position
        self.at = at
        self.segments: list[Segment] = []
        """The unfinished ones, by their rows."""

    def segment_of(self, row: int) -> Segment | None:
        index = bisect_right(self.segments, row, key=_first) - 1
        segment = self.segments[index] if index >= 0 else None
        return segment if segment is not None and row < segment.end else None


class Waiting(Struct, frozen=True, eq=False):
    """One job that is not admitted yet: where it lies."""

    segment: Segment
    row: int

    @property
    def place(self) -> ChunkPlace:
        return self.segment.place_of(self.row)

    def job(self, row: Row, settings: Settings) -> Job:
        """The pending job that it is, before its life in the log begins."""
        source, record = self.segment.source, self.segment.record
        job = Job(
            id_of(source.run, self.row), source.tenant, record.queue, record.type, source.position,
            source.at, max(row.run_at or 0.0, source.at), row.payload.copy(), row.codec,
        )  # fmt: skip
        job.max_attempts, job.retry, job.timeout_seconds = with_defaults(row, settings)
        job.priority, job.meta, job.trace = record.priority, row.meta, row.trace
        job.source, job.row, job.updated_at = source.position, self.row, source.at
        return job


def segments_of(source: Source, objects: Iterable[ImportObject]) -> Iterator[Segment]:
    """The segments that a run begins with, their rows numbered."""
    first = 0
    for object in objects:
        for record in object.segments:
            segment = Segment(source, object.key, object.digest, record, first)
            first = segment.end
            yield segment


def _first(segment: Segment) -> int:
    return segment.first
