"""What a reader gets from a queue: events as the lines they are stored in, a chunk at a time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from penstock.kernel.events import Event, commit_of
from penstock.wire.commit import Header, encode_event


class Chunk(Struct, frozen=True):
    name: str
    """What to call it when something in it is wrong."""
    lines: bytes
    events: int
    last: int
    """The newest commit that it has events of; of that and of all others it has all."""
    header: Header | None = None
    """Where a chunk is a commit that has one; otherwise there are events of several, without."""
    size_bytes: int | None = None
    """What it weighs in the store, where it is an object of its own."""


def chunk_of(name: str, events: Sequence[Event]) -> Chunk:
    """Events that somebody else has read, of one commit or more."""
    # What a readable document holds may span several lines.
    lines = [msgspec.json.format(encode_event(event), indent=-1) for event in events]
    return Chunk(name, b"\n".join(lines), len(lines), commit_of(events[-1].position))


class Span(Struct, frozen=True):
    """Commits from `first` to `last`, both included; empty if `last` is before `first`."""

    first: int
    last: int

    def __bool__(self) -> bool:
        return self.first <= self.last


class Bounds(Struct, frozen=True):
    """Where a queue's readable events begin, and the newest commit."""

    floor: int
    head: int
