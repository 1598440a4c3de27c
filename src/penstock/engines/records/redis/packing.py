"""The bytes of what is stored. The scripts read the same places.

A record: version (16 digits), life (18), shelf (1), the lengths of lane (2 bytes), claim (2) and
key (4, all ones: it has none); then lane, claim, key and body, which may be packed.
A hold: life (18 digits), `until`, `lapses_at` (empty: none) and the holder's id, between slashes.
The events of a commit are packed.
A bucket of commits: of each its place in the bucket (1 byte), time (8), length (4), token (12) and
events; where the length is 0 these are under a name of their own.
The charter: its version (16 digits), then the charter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct as Layout
from typing import Final

import msgspec
from msgspec import Struct

from penstock.engines.records.redis.keys import LIFE_DIGITS, hold_parts
from penstock.kernel.departures import Departed
from penstock.kernel.tenancy import Hold
from penstock.ports.records import KeyHold, Record, Remembered, Shelf, Stored
from penstock.wire.packed import pack, unpack

_encode: Final = msgspec.json.Encoder().encode
_operations: Final = msgspec.json.Decoder(tuple[str, ...])
_RECORD: Final = Layout(">16s18scHHI")
VERSION_DIGITS: Final = 16
PACKED_BYTES_MAX: Final = 1024 * 1024
"""The server makes nothing small. What is larger would keep the event loop for too long."""
_TIME: Final = Layout(">d")
_NO_KEY: Final = 2**32 - 1
_LETTERS: Final = {
    Shelf.PENDING: b"p", Shelf.RUNNING: b"r", Shelf.COMPLETED: b"c", Shelf.DEAD: b"d",
    Shelf.ARCHIVED: b"a",
}  # fmt: skip
_SHELVES: Final = {letter: shelf.value for shelf, letter in _LETTERS.items()}


class Located(Struct, frozen=True, gc=False):
    """Where a stored record is indexed."""

    version: int
    shelf: str
    lane: str
    claim: str


def record_bytes(record: Record, lane: bytes, version: str, life: str, body: bytes) -> bytes:
    """Version and life in digits, the body as it is kept."""
    claim = record.claim.encode() if record.claim else b""
    key = b"" if record.key is None else record.key.encode()
    key_length = _NO_KEY if record.key is None else len(key)
    letter = _LETTERS[record.shelf]
    header = _RECORD.pack(
        version.encode(), life.encode(), letter, len(lane), len(claim), key_length
    )
    return b"".join((header, lane, claim, key, body))


def stored_in(value: bytes) -> tuple[Stored, Located]:
    digits, life, letter, lane_length, claim_length, key_length = _RECORD.unpack_from(value)
    shelf, version = _SHELVES[letter], int(digits)
    lane_end = _RECORD.size + lane_length
    claim_end = lane_end + claim_length
    body = value[claim_end + (0 if key_length == _NO_KEY else key_length) :]
    body = unpack(f"the record of life {int(life)}", body)
    lane = value[_RECORD.size : lane_end].decode()
    located = Located(version, shelf, lane, value[lane_end:claim_end].decode())
    return Stored(int(life), version, shelf, body), located


def shelf_letters(shelves: Iterable[str]) -> str:
    """As the values of their records have them."""
    return "".join(_LETTERS[Shelf(shelf)].decode() for shelf in shelves)


def version_digits(version: int) -> str:
    return f"{version:0{VERSION_DIGITS}d}"


def life_digits(life: int) -> str:
    return f"{life:0{LIFE_DIGITS}d}"


def hold_text(held: KeyHold) -> str:
    hold = held.hold
    times = ("" if at is None else repr(at) for at in (hold.until, held.lapses_at))
    return "/".join((life_digits(hold.life), *times, hold.id))


def hold_in(name: str, value: str) -> KeyHold:
    life, until, lapses_at, id = value.split("/", 3)
    tenant, scope = hold_parts(name)
    hold = Hold(id, int(life), float(until) if until else None)
    return KeyHold(tenant, scope, hold, float(lapses_at) if lapses_at else None)


def charter_in(value: bytes) -> tuple[bytes, int]:
    """The charter and its version."""
    if not value:
        return b"", 0
    return value[VERSION_DIGITS:], int(value[:VERSION_DIGITS])


def packed_events(events: bytes) -> bytes:
    return pack(events, PACKED_BYTES_MAX)


def events_in(value: bytes) -> bytes:
    return unpack("the events of a commit", value)


def calls_text(departed: Departed) -> str:
    """`until`, a slash, and the operations as JSON."""
    return f"{departed.until!r}/{_encode(departed.operations).decode()}"


def calls_in(name: str, value: bytes) -> Remembered:
    tenant, id = name.split("/")
    until, _, operations = value.partition(b"/")
    return Remembered(tenant, id, Departed(float(until), _operations.decode(operations)))


def time_in(value: bytes) -> float:
    """Of an object."""
    at: float = _TIME.unpack_from(value)[0]
    return at


def split(lengths: bytes, joined: bytes) -> Iterator[bytes]:
    """What a script has joined."""
    start = 0
    for length in map(int, lengths.split(b",") if lengths else ()):
        yield joined[start : start + length]
        start += length
