"""`warehouse.json`: which queue a warehouse is of, how its tables are kept, where they begin."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from penstock.errors import ForeignWarehouse, PreconditionFailed, PutUnknown
from penstock.pipeline.warehouse.place import Place
from penstock.ports.store import Create
from penstock.wire.level import UNREADABLE

MARKER: Final = "warehouse.json"
FORMAT: Final = 1
_TRIES_MAX: Final = 5


class WarehouseMarker(Struct, frozen=True):
    format: int
    queue: str
    kind: str
    start: int
    """The first commit that the tables contain; what came before had been vacuumed."""


def stored_warehouse_marker(place: Place) -> WarehouseMarker | None:
    """Of whichever queue; raises where it can't be used."""
    stored = place.get(MARKER)
    if stored is None:
        return None
    try:
        marker = msgspec.json.decode(stored.data, type=WarehouseMarker)
    except UNREADABLE as error:
        raise ForeignWarehouse(place.name, f"its {MARKER} can't be read ({error})") from error
    if marker.format != FORMAT:
        raise ForeignWarehouse(place.name, f"it was made by another penstock ({marker.format})")
    return marker


def read_warehouse_marker(place: Place, queue: str, kind: str) -> WarehouseMarker | None:
    """None where a warehouse can be made; raises where something else is."""
    marker = stored_warehouse_marker(place)
    if marker is None:
        if not place.is_empty():
            raise ForeignWarehouse(place.name, "it is not empty and no warehouse of penstock's")
        return None
    if marker.queue != queue:
        raise ForeignWarehouse(place.name, "it has the tables of another queue")
    if marker.kind != kind:
        raise ForeignWarehouse(place.name, f"its tables are kept as {marker.kind}, not as {kind}")
    return marker


def make_warehouse_marker(place: Place, queue: str, kind: str, start: int) -> WarehouseMarker:
    """Whoever is first says where the tables begin; all others go by that."""
    wanted = WarehouseMarker(FORMAT, queue, kind, start)
    for _ in range(_TRIES_MAX):
        try:
            place.put(MARKER, msgspec.json.encode(wanted), Create())
            return wanted
        except (PreconditionFailed, PutUnknown):
            found = read_warehouse_marker(place, queue, kind)
            if found is not None:
                return found
    raise PutUnknown(place.name, MARKER, f"no clear answer in {_TRIES_MAX} tries")
