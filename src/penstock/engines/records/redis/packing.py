"""The bytes of what is stored. The scripts read the same places.

A record: version (8 bytes), life (18 digits), the length of its key (4 bytes, all ones: it has
none), then its mark, which says where it is indexed: shelf (1), the lengths of lane (2) and claim
(2), lane and claim; then key and body. The body of one that has ended may be packed.
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
from penstock.ports.records import KeyHold, Remembered, Shelf, Stored
from penstock.wire.packed import pack, unpack

_encode: Final = msgspec.json.Encoder().encode
_operations: Final = msgspec.json.Decoder(tuple[str, ...])
_RECORD: Final = Layout(">Q18sIcHH")
_VERSION: Final = Layout(">Q")
_MARK: Final = Layout(">cHH")
_MARK_START: Final = _RECORD.size - _MARK.size
_KEY_LENGTH: Final = Layout(">I")
VERSION_DIGITS: Final = 16
PACKED_BYTES_MAX: Final = 1024 * 1024
"""The server makes nothing small. What is larger would keep the event loop for too long."""
_TIME: Final = Layout(">d")
_ENTRY: Final = Layout(">xd18x")
_NO_KEY: Final = 2**32 - 1
NO_KEY: Final = _KEY_LENGTH.pack(_NO_KEY)
_LETTERS: Final = {
    Shelf.PENDING: b"p", Shelf.RUNNING: b"r", Shelf.COMPLETED: b"c", Shelf.DEAD: b"d",
    Shelf.ARCHIVED: b"a",
}  # fmt: skip
_LIVE: Final = frozenset((_LETTERS[Shelf.PENDING], _LETTERS[Shelf.RUNNING]))
_SHELVES: Final = {letter: shelf.value for shelf, letter in _LETTERS.items()}


class Place(Struct, frozen=True, gc=False):
    """Where records are indexed; those that were found in the same place share it."""

    shelf: str
    lane: str
    claim: str


class Located(Struct, frozen=True, gc=False):
    """A stored record's version, and where it is indexed."""

    version: int
    place: Place


def mark_of(shelf: Shelf, lane: str, claim: str) -> bytes:
    lane_bytes, claim_bytes = lane.encode(), claim.encode()
    lengths = _MARK.pack(_LETTERS[shelf], len(lane_bytes), len(claim_bytes))
    return lengths + lane_bytes + claim_bytes


def key_bytes(key: str | None) -> tuple[bytes, bytes]:
    """The length of a record's key, and the key."""
    if key is None:
        return NO_KEY, b""
    encoded = key.encode()
    return _KEY_LENGTH.pack(len(encoded)), encoded


def version_bytes(version: int) -> bytes:
    return _VERSION.pack(version)


class Opener:
    """Opens what is stored, one value after the other of what a script has joined."""

    def __init__(self) -> None:
        self._places: dict[bytes, Place] = {}

    def open(self, joined: bytes, start: int, stop: int) -> tuple[Stored, Located]:
        version, digits, key_length, letter, lane_length, claim_length = _RECORD.unpack_from(
            joined, start
        )
        mark_start = start + _MARK_START
        lane_start = start + _RECORD.size
        mark_stop = lane_start + lane_length + claim_length
        mark = joined[mark_start:mark_stop]
        place = self._places.get(mark)
        if place is None:
            lane_stop = lane_start + lane_length
            lane = joined[lane_start:lane_stop].decode()
            place = Place(_SHELVES[letter], lane, joined[lane_stop:mark_stop].decode())
            self._places[mark] = place
        life = int(digits)
        body = joined[mark_stop + (0 if key_length == _NO_KEY else key_length) : stop]
        if letter not in _LIVE:
            body = unpack(f"the record of life {life}", body)
        return Stored(life, version, place.shelf, body), Located(version, place)


def stored_in(value: bytes) -> tuple[Stored, Located]:
    return Opener().open(value, 0, len(value))


def shelf_letters(shelves: Iterable[str]) -> str:
    """As the values of their records have them."""
    return "".join(_LETTERS[Shelf(shelf)].decode() for shelf in shelves)


def charter_digits(version: int) -> str:
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


def entries_in(strung: bytes) -> Iterator[tuple[float, str]]:
    """Of lanes' entries, each after a letter and with a zero between them: when what a lane begins
    with is due, and the lane."""
    start = 0
    while start < len(strung):
        stop = strung.find(b"\0", start + _ENTRY.size)
        stop = len(strung) if stop < 0 else stop
        yield _ENTRY.unpack_from(strung, start)[0], strung[start + _ENTRY.size : stop].decode()
        start = stop + 1


def spans(lengths: bytes) -> Iterator[tuple[int, int]]:
    """Where each part of what a script has joined begins and ends."""
    start = 0
    for length in map(int, lengths.split(b",") if lengths else ()):
        stop = start + length
        yield start, stop
        start = stop


def split(lengths: bytes, joined: bytes) -> Iterator[bytes]:
    """What a script has joined."""
    return (joined[start:stop] for start, stop in spans(lengths))


def opened(lengths: bytes, joined: bytes) -> Iterator[tuple[Stored, Located]]:
    """The records that a script has joined."""
    opener = Opener()
    return (opener.open(joined, start, stop) for start, stop in spans(lengths))
