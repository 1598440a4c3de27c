"""Python over the rows of a frame, as Arrow batches: what works on every kind of Spark."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

OnBatches: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def mapped(frame: DataFrame, function: OnBatches, schema: StructType) -> DataFrame:
    with warnings.catch_warnings():
        # It asks for pandas even where only Arrow is used, and warns of its version.
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        return frame.mapInArrow(function, schema)
