"""How tables are kept, by name; and opening those that are there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from penstock.errors import WarehouseMissing
from penstock.pipeline.warehouse.marker import stored_warehouse_marker
from penstock.pipeline.warehouse.place import Place, opened_place
from penstock.pipeline.warehouse.warehouse import Warehouse

FORMATS: Final = ("delta", "parquet")


def warehouse_of(place: Place, queue: str, format: str) -> Warehouse:
    if format == "parquet":
        from penstock.pipeline.warehouse.parquet import ParquetWarehouse

        return ParquetWarehouse(place, queue)
    from penstock.pipeline.warehouse.delta import DeltaWarehouse

    return DeltaWarehouse(place, queue)


@contextmanager
def opened_warehouse(url: str) -> Iterator[tuple[Place, Warehouse]]:
    """One that a run has made, to be read."""
    with opened_place(url) as place:
        marker = stored_warehouse_marker(place)
        if marker is None:
            raise WarehouseMissing(url)
        yield place, warehouse_of(place, marker.queue, marker.kind)
