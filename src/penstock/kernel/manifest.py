"""What an import brings, as values: rows, and where they lie.

The rows of a run lie in *import objects*, one JSON line each. Within an object they are cut into
*segments*, by tenant, queue, type and priority and sorted by `run_at`, and a segment into *chunks*,
the unit that is read and admitted at once. A row says only what its segment does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Raw, Struct

from penstock.kernel.job import (
    ABSENT,
    DEFAULT_CODEC,
    DEFAULT_PRIORITY,
)
from penstock.kernel.retry import RetryPolicy

CHUNK_ROWS_MAX: Final = 1_000
CHUNK_BYTES_MAX: Final = 1024 * 1024
"""A chunk ends at either; one row that is larger by itself is a chunk."""


class Row(Struct, frozen=True, gc=False, omit_defaults=True):
    """One imported job, as its line says."""

    payload: Raw = ABSENT
    run_at: float | None = None
    codec: str = DEFAULT_CODEC
    max_attempts: int | None = None
    retry: RetryPolicy | None = None
    timeout_seconds: float | None = None
    meta: dict[str, Any] | None = None
    trace: str | None = None
    id: str | None = None
    key: str | None = None
    unique_seconds: float = 0.0


class Chunk(Struct, frozen=True, gc=False, array_like=True):
    size_bytes: int
    rows: int
    run_at: float
    """Of its first row; 0: due as soon as it is imported."""


class SegmentRecord(Struct, frozen=True, gc=False, omit_defaults=True):
    queue: str
    type: str
    chunks: tuple[Chunk, ...]
    priority: int = DEFAULT_PRIORITY
    offset: int = 0
    """Where its first chunk begins in the object; the others follow without a gap."""
    tenant: str = ""
    """Left out where the event that holds it says whose it is."""

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)


class ImportObject(Struct, frozen=True, gc=False, omit_defaults=True):
    key: str
    digest: str
    segments: tuple[SegmentRecord, ...]


class ImportManifest(Struct, frozen=True, gc=False, omit_defaults=True):
    """What one writer wrote: small, whatever the number of rows."""

    objects: tuple[ImportObject, ...]
    rows: int
    has_identities: bool = False
    """Whether some rows have an id or a key of their own, and so may be duplicates."""


class ChunkPlace(Struct, frozen=True, gc=False):
    """Where the rows of one chunk are to be found."""

    key: str
    digest: str
    offset: int
    size_bytes: int
    first: int
    """The number of its first row in the run."""
    rows: int


Chunks: TypeAlias = Callable[[ChunkPlace], Sequence[Row]]
"""The rows of a chunk, if they are at hand; else it raises `NeedsChunk`, or why there are none."""


class NeedsChunk(Exception):
    """A decision needs rows that are not at hand. Nothing is decided: read them, decide again."""

    def __init__(self, place: ChunkPlace) -> None:
        super().__init__(place)
        self.place = place


def nothing_at_hand(place: ChunkPlace) -> Sequence[Row]:
    raise NeedsChunk(place)
