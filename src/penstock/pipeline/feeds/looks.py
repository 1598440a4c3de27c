"""`looks.json` of a warehouse: how far each object of the queue was seen to go, look by look.

A look is a number that cursors refer to, and the objects that had gone on since the look before.
What lies between two looks is a range of positions of each object. Looks that no table stands
before any more are folded into one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from penstock.errors import ForeignWarehouse
from penstock.pipeline.warehouse.place import Place
from penstock.ports.store import Create, PutMode, Replace
from penstock.wire.level import UNREADABLE

LOOKS: Final = "looks.json"
FORMAT: Final = 1


class Look(Struct, frozen=True):
    number: int
    further: dict[str, int]
    """By object, the position of its last event, if it has gone on since the look before."""


class Range(Struct, frozen=True):
    """Events of one object: after a position, up to another one."""

    key: str
    after: int
    up_to: int


class Looks(Struct, frozen=True):
    format: int
    start: int
    """Where tables begin that have nothing."""
    taken: tuple[Look, ...] = ()
    """Oldest first."""

    @property
    def newest(self) -> int:
        return self.taken[-1].number if self.taken else self.start

    def knows(self, number: int) -> bool:
        return number == self.start or any(look.number == number for look in self.taken)

    def reached(self, number: int) -> dict[str, int]:
        """By object, how far its events went when a look was taken."""
        return _folded(look for look in self.taken if look.number <= number)

    def ranges(self, after: int, up_to: int) -> list[Range]:
        """What came between two looks."""
        known = self.reached(after)
        came = _folded(look for look in self.taken if after < look.number <= up_to)
        return [Range(key, known.get(key, 0), position) for key, position in sorted(came.items())]

    def with_look(self, look: Look, cursor: int, gone: Iterable[str]) -> Looks:
        """After one more. All tables are at the cursor or beyond; objects that are gone stay known
        while they are in a piece that somebody may yet ask for."""
        old = [one for one in self.taken if one.number <= cursor]
        later = [*self.taken[len(old) :], look]
        if old:
            gone = set(gone).difference(*(one.further for one in later))
            kept = {key: at for key, at in _folded(old).items() if key not in gone}
            old = [Look(old[-1].number, kept)]
        return replace(self, taken=(*old, *later))


class StoredLooks(Struct, frozen=True):
    looks: Looks
    version: str | None

    def replace(self, place: Place, looks: Looks) -> None:
        mode: PutMode = Create() if self.version is None else Replace(self.version)
        place.put(LOOKS, msgspec.json.encode(looks), mode)


def stored_looks(place: Place, start: int) -> StoredLooks:
    stored = place.get(LOOKS)
    if stored is None:
        return StoredLooks(Looks(FORMAT, start), None)
    try:
        looks = msgspec.json.decode(stored.data, type=Looks)
    except UNREADABLE as error:
        raise ForeignWarehouse(place.name, f"its {LOOKS} can't be read ({error})") from error
    if looks.format != FORMAT:
        raise ForeignWarehouse(place.name, f"it was made by another penstock ({looks.format})")
    return StoredLooks(looks, stored.version)


def _folded(looks: Iterable[Look]) -> dict[str, int]:
    return {key: position for look in looks for key, position in look.further.items()}
