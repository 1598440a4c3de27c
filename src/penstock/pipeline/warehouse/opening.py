"""How tables are kept, by name."""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession

from penstock.pipeline.warehouse.place import Place
from penstock.pipeline.warehouse.warehouse import Warehouse

FORMATS: Final = ("delta", "parquet")


def warehouse_of(spark: SparkSession, place: Place, queue: str, format: str) -> Warehouse:
    if format == "parquet":
        from penstock.pipeline.warehouse.parquet import ParquetWarehouse

        return ParquetWarehouse(place, queue)
    from penstock.pipeline.warehouse.delta import DeltaWarehouse

    return DeltaWarehouse(place, queue)
