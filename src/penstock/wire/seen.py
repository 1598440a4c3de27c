"""What repair, counts and vacuum have to know of a task, as bytes: so that one that has not changed
need not be read again, by this process or the next.

A summary is a hint. It says for each object of a shard when it was put and how large it is; where a
listing says the same, the object is what it was, and otherwise it is read. One that is missing,
altered or of another level costs reading, and nothing else.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from penstock.errors import Corrupt
from penstock.kernel.job import State
from penstock.kernel.stamps import Stamp
from penstock.wire.level import UNREADABLE, require_signature, signed

SUMMARY_LEVEL: Final = 1
"""What a summary says and means; one of another level is not read."""


class Seen(Struct, frozen=True, array_like=True, gc=False):
    """A task that has no opening, as it was seen."""

    modified_at: float
    size_bytes: int
    last_position: int
    last_at: float
    stamp: Stamp | None = None
    """Its newest time, where that differs from the clock."""
    sealed: str = ""
    is_made: bool = False
    is_buried: bool = False
    is_spared: bool = False
    has_events: bool = False
    left: dict[str, dict[State, int]] | None = None
    departed_until: float = 0.0
    """How long it is known what its last job has left behind, where it has none now."""
    names: tuple[str, ...] = ()
    """Side objects that it names."""
    state: State | None = None
    """Of its job, as is all that follows; None: it has none."""
    queue: str = ""
    type: str = ""
    life: int = 0
    stretch: int = 0
    """Since which position it has been in this state."""
    due_at: float = 0.0
    """When a pending one is due, by the clock."""
    ended_at: float | None = None
    archived_at: float | None = None


class Summary(Struct, frozen=True):
    """The tasks of one shard, by their names."""

    level: int
    tasks: dict[str, Seen]


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Summary)


def encode_summary(tasks: dict[str, Seen]) -> bytes:
    return signed(_encoder.encode(Summary(SUMMARY_LEVEL, tasks)))


def decode_summary(key: str, data: bytes) -> dict[str, Seen]:
    """Raises `Corrupt` if it was altered or is of another level."""
    require_signature(key, data)
    try:
        summary = _decoder.decode(data)
    except UNREADABLE as error:
        raise Corrupt(key, f"it is no summary ({error})") from error
    if summary.level != SUMMARY_LEVEL:
        raise Corrupt(key, f"it is a summary of level {summary.level}")
    return summary.tasks
