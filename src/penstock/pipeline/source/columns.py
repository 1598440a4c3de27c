"""From rows to Arrow: one column at a time, all values of a column at once.

A row is a struct that has columns as fields. Rows of different kinds may be mixed, as events are:
those of one kind are turned together, since they have the same fields, and what a kind does not
have costs nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw, Struct
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type
from pyspark.sql.types import ArrayType, DataType, StructType, TimestampType

from penstock.kernel.job import AttemptError
from penstock.pipeline.schemas import ERROR

MICROSECONDS: Final = 1_000_000
JSON_COLUMNS: Final = frozenset({"payload", "result", "meta", "retry", "settings", "objects"})

TIMESTAMP_TYPE: Final = pa.timestamp("us", tz="UTC")
ERRORS_TYPE: Final = to_arrow_type(ArrayType(ERROR), timezone="UTC")

Row: TypeAlias = Any
"""A struct; which fields it has is decided by the read."""
Values: TypeAlias = Sequence[Any]
Array: TypeAlias = Any
"""Of pyarrow, which has no types of its own."""

_encoder: Final = msgspec.json.Encoder()


class Columns:
    """The fields of many rows of one kind."""

    def __init__(self, kind: type[Struct], rows: Sequence[Row]) -> None:
        self.kind = str(kind.__struct_config__.tag)
        """Of events: which event."""
        self.rows = rows
        self._fields = kind.__struct_fields__
        self._arrays: dict[tuple[str, Array], Array] = {}

    def values(self, name: str) -> Values:
        if name not in self._fields:
            return [None] * len(self.rows)
        return list(map(attrgetter(name), self.rows))

    def array(self, name: str, type: Array) -> Array:
        if name not in self._fields:
            return self.constant(None, type)
        found = self._arrays.get((name, type))
        if found is None:
            found = self._arrays[name, type] = pa.array(self.values(name), type)
        return found

    def numbers(self, name: str) -> Array:
        """A column as doubles: times as seconds since the epoch."""
        return self.array(name, pa.float64())

    def timestamps(self, name: str) -> Array:
        if name not in self._fields:
            return self.constant(None, TIMESTAMP_TYPE)
        return _timestamps(self.numbers(name))

    def json(self, name: str) -> Array:
        if name not in self._fields:
            return self.constant(None, pa.string())
        return json_texts(self.values(name))

    def errors(self, name: str) -> Array:
        if name not in self._fields:
            return self.constant(None, ERRORS_TYPE)
        return error_lists(self.values(name))

    def constant(self, value: Any, type: Array) -> Array:
        if value is None:
            return pa.nulls(len(self.rows), type)
        return pa.repeat(pa.scalar(value, type), len(self.rows))


Rule: TypeAlias = Callable[[Columns], Array]
"""How a column is made."""


class Builder:
    """Record batches of one schema, the way Spark wants them.

    A column is made of the field of its name, unless a rule says otherwise.
    """

    def __init__(self, schema: StructType, rules: Mapping[str, Rule]) -> None:
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._rules = [
            rules.get(field.name) or _rule(field.name, field.dataType) for field in schema.fields
        ]

    def batch(self, rows: Sequence[Row]) -> Array:
        kinds: dict[type[Struct], list[int]] = defaultdict(list)
        for index, row in enumerate(rows):
            kinds[row.__class__].append(index)
        if not kinds:
            return pa.RecordBatch.from_pylist([], schema=self._schema)
        if len(kinds) == 1:
            return self._of_kind(rows[0].__class__, rows)
        parts = [
            self._of_kind(kind, [rows[index] for index in indices])
            for kind, indices in kinds.items()
        ]
        came = pa.array([index for indices in kinds.values() for index in indices])
        return pa.concat_batches(parts).take(pc.sort_indices(came))

    def _of_kind(self, kind: type[Struct], rows: Sequence[Row]) -> Array:
        columns = Columns(kind, rows)
        return pa.RecordBatch.from_arrays(
            [rule(columns) for rule in self._rules], schema=self._schema
        )


def json_texts(values: Values) -> Array:
    return pa.array([_json(value) for value in values], pa.string())


def error_lists(values: Sequence[Sequence[AttemptError]]) -> Array:
    offsets: list[int] = [0]
    errors: list[AttemptError] = []
    for value in values:
        errors += value
        offsets.append(len(errors))
    elements = Builder(ERROR, {}).batch(errors).to_struct_array()
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements, type=ERRORS_TYPE)


def _rule(name: str, type: DataType) -> Rule:
    if isinstance(type, TimestampType):
        return lambda columns: columns.timestamps(name)
    if isinstance(type, ArrayType):
        return lambda columns: columns.errors(name)
    if name in JSON_COLUMNS:
        return lambda columns: columns.json(name)
    arrow = to_arrow_type(type)
    return lambda columns: columns.array(name, arrow)


def _timestamps(seconds: Array) -> Array:
    """Doubles to microseconds; rounded, since a double can't hold most of them exactly."""
    micros = pc.cast(pc.round(pc.multiply(seconds, float(MICROSECONDS))), pa.int64())
    return pc.cast(micros, TIMESTAMP_TYPE)


def _json(value: Any) -> bytes | None:
    """The text of an encoded value as it is, of any other encoded now; null if it is not there."""
    if isinstance(value, Raw):
        return bytes(value) or None
    return None if value is None else _encoder.encode(value)
