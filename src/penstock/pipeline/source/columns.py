"""From rows to Arrow: one column at a time, all values of a column at once.

A row is any object that has the columns as attributes: events as `rows` decodes them, or jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, StructType, TimestampType

from penstock.kernel.job import AttemptError
from penstock.pipeline.schemas import ERROR

MICROSECONDS: Final = 1_000_000
Values: TypeAlias = Sequence[Any]
Array: TypeAlias = Any
"""Of pyarrow, which has no types of its own."""

_encoder: Final = msgspec.json.Encoder()


class Columns:
    """The attributes of many rows, each taken when it is asked for and then kept."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self.rows = rows
        self._values: dict[str, Values] = {}
        self._arrays: dict[tuple[str, Array], Array] = {}

    def values(self, name: str) -> Values:
        found = self._values.get(name)
        if found is None:
            found = self._values[name] = list(map(attrgetter(name), self.rows))
        return found

    def array(self, name: str, type: Array) -> Array:
        found = self._arrays.get((name, type))
        if found is None:
            found = self._arrays[name, type] = pa.array(self.values(name), type)
        return found

    def numbers(self, name: str) -> Array:
        """A column as doubles: times as seconds since the epoch."""
        return self.array(name, pa.float64())


Rule: TypeAlias = Callable[[Columns], Array]
"""How a column is made where it is not simply the attribute of its name."""


class Builder:
    """Record batches of one schema, the way Spark wants them."""

    def __init__(self, schema: StructType, rules: Mapping[str, Rule]) -> None:
        self.schema = to_arrow_schema(schema, timezone="UTC")
        self._makers = [
            rules.get(field.name) or plain(field.name, field.dataType) for field in schema.fields
        ]

    def batch(self, rows: Sequence[Any]) -> Array:
        columns = Columns(rows)
        arrays = [make(columns) for make in self._makers]
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def timestamps(seconds: Array) -> Array:
    """Doubles to microseconds; rounded, since a double can't hold most of them exactly."""
    micros = pc.cast(pc.round(pc.multiply(seconds, float(MICROSECONDS))), pa.int64())
    return pc.cast(micros, pa.timestamp("us", tz="UTC"))


def json_texts(values: Values) -> Array:
    return pa.array([_json(value) for value in values], pa.string())


def error_lists(values: Values) -> Array:
    """Lists of `AttemptError`s; None stays null."""
    offsets: list[int] = [0]
    errors: list[AttemptError] = []
    for value in values:
        errors += value or ()
        offsets.append(len(errors))
    elements = Builder(ERROR, {}).batch(errors).to_struct_array()
    missing = pa.array([value is None for value in values], pa.bool_())
    type = pa.list_(pa.field("element", elements.type))
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), elements, type=type, mask=missing
    )


def plain(name: str, type: DataType) -> Rule:
    if isinstance(type, TimestampType):
        return lambda columns: timestamps(columns.numbers(name))
    if isinstance(type, ArrayType):
        return lambda columns: error_lists(columns.values(name))
    if name in JSON_COLUMNS:
        return lambda columns: json_texts(columns.values(name))
    arrow = to_arrow_schema(StructType().add(name, type)).field(0).type
    return lambda columns: columns.array(name, arrow)


JSON_COLUMNS: Final = frozenset({"payload", "result", "meta", "retry", "settings"})


def _json(value: Any) -> bytes | None:
    """The text of an encoded value as it is, of any other encoded now; null if it is not there."""
    if isinstance(value, Raw):
        return bytes(value) or None
    return None if value is None else _encoder.encode(value)
