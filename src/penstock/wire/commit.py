"""A commit as bytes: one header line, then one event a line, all JSON.

The header has the digest of the body and one of itself, so a truncated or altered object is seen,
and the digest of the header before it, so the commits form a chain: whoever has one header can tell
whether a later log really continues it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from penstock.errors import Corrupt
from penstock.kernel.events import Event, index_of
from penstock.kernel.stamps import Stamp, stamp_of
from penstock.wire.level import (
    UNMOVED_LEVEL,
    UNREADABLE,
    digest,
    require_known,
    require_signature,
    signed,
)

CHAIN_START: Final = ""
"""What the first commit has in place of a digest of the one before it."""


UNWRITABLE: Final = (TypeError, ValueError, OverflowError, RecursionError)
"""What an encoder raises that meets what it can't write."""


class Unencodable(Exception):
    """An event holds what can't be written. Nothing of its commit has been."""

    def __init__(self, index: int, error: Exception) -> None:
        super().__init__(index, error)
        self.index = index
        self.error = error


class Header(Struct, frozen=True, omit_defaults=True):
    format: int
    commit: int
    commit_id: str
    writer: str
    epoch: int
    """Which broker's reign it belongs to; 0 without one."""
    at: float
    events: int
    body: str
    previous: str
    clock: float | None = None
    """What the writer took for the time, where `at` is ahead of it."""

    @property
    def stamp(self) -> Stamp:
        return stamp_of(self.at, self.clock)


class Commit(Struct, frozen=True):
    header: Header
    events: list[Event]
    chain: str
    """The digest of this header: what the next commit names as its previous."""
    size_bytes: int


_encoder: Final = msgspec.json.Encoder()
_header_decoder: Final = msgspec.json.Decoder(Header)
_events_decoder: Final = msgspec.json.Decoder(Event)
_level_decoder: Final = msgspec.json.Decoder(dict[str, object])


def encode_commit(
    events: Sequence[Event],
    *,
    commit: int,
    commit_id: str,
    writer: str,
    at: float,
    clock: float | None = None,
    previous: str,
    epoch: int = 0,
    level: int = UNMOVED_LEVEL,
) -> tuple[bytes, str]:
    """The object to store, and the chain digest after it; `clock` where `at` is ahead of it.

    Raises `Unencodable`.
    """
    try:
        body = _encoder.encode_lines(events)
    except UNWRITABLE as error:
        raise_unencodable(events)
        raise AssertionError("each event can be written, but not all together") from error
    header = Header(
        level, commit, commit_id, writer, epoch, at, len(events), digest(body), previous, clock
    )
    line = signed(_encoder.encode(header))
    return b"\n".join((line, body)), digest(line)


def raise_unencodable(events: Sequence[Event]) -> None:
    """Says which of the events it is, if it is one of them."""
    for index, event in enumerate(events):
        try:
            _encoder.encode(event)
        except UNWRITABLE as error:
            raise Unencodable(index, error) from error


def decode_header(key: str, data: bytes) -> Header:
    """Only the first line: enough to know whose commit it is."""
    line = data.partition(b"\n")[0]
    require_signature(key, line)
    try:
        return _header_decoder.decode(line)
    except UNREADABLE as error:
        _complain_of_level(key, line)
        raise Corrupt(key, f"its header can't be read ({error})") from error


def decode_lines(key: str, data: bytes) -> tuple[Header, bytes]:
    """The header, and the lines of events below it as they are: known to be whole, but not read."""
    header = decode_header(key, data)
    require_known(key, header.format)
    body = data.partition(b"\n")[2]
    if digest(body) != header.body:
        raise Corrupt(key, "its body is not what its header says: truncated or altered")
    return header, body


def decode_events(key: str, header: Header, body: bytes) -> list[Event]:
    try:
        events = _events_decoder.decode_lines(body)
    except UNREADABLE as error:
        raise Corrupt(key, f"an event in it can't be read ({error})") from error
    require_count(key, header.events, len(events))
    return events


def decode_some(key: str, data: bytes, positions: Collection[int]) -> list[Event]:
    """The events of a commit that are at these positions. The others are not decoded."""
    header, body = decode_lines(key, data)
    lines = body.split(b"\n")
    require_count(key, header.events, len(lines) - 1)
    try:
        return [decode_event(lines[index_of(position)]) for position in positions]
    except (*UNREADABLE, IndexError) as error:
        raise Corrupt(key, f"an event in it can't be read ({error})") from error


def require_count(key: str, said: int, found: int) -> None:
    if found != said:
        raise Corrupt(key, f"it has {found} events, its header says {said}")


def decode_commit(key: str, data: bytes) -> Commit:
    header, body = decode_lines(key, data)
    events = decode_events(key, header, body)
    return Commit(header, events, digest(data.partition(b"\n")[0]), len(data))


def encode_event(event: Event) -> bytes:
    return _encoder.encode(event)


def decode_event(data: bytes | str) -> Event:
    event: Event = _events_decoder.decode(data)
    return event


def _complain_of_level(key: str, line: bytes) -> None:
    """A header this code can't read may simply be newer; then say that."""
    try:
        level = _level_decoder.decode(line).get("format")
    except UNREADABLE:
        return
    if isinstance(level, int):
        require_known(key, level)
