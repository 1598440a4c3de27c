"""Which columns a frame of jobs may have, and how each becomes what a job is made of.

Everything is decided from the schema, before a task runs: what a column can't be, and which
function turns a batch of it into values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
    VariantVal,
)

from penstock.errors import InvalidInput
from penstock.kernel.job import DEFAULT_CODEC

Array: TypeAlias = Any
"""Of pyarrow, which has no types of its own."""
Values: TypeAlias = Sequence[Any]
Read: TypeAlias = Callable[[Array], Values]

TEXT: Final = (StringType,)
WHOLE: Final = (ByteType, ShortType, IntegerType, LongType)
NUMBER: Final = (*WHOLE, FloatType, DoubleType, DecimalType)
TIME: Final = (TimestampType, TimestampNTZType)
NESTED: Final = (StructType, MapType, ArrayType)
BYTES: Final = "raw"
"""The codec of a binary column."""
MICROSECONDS: Final = 1_000_000

ACCEPTED: Final[Mapping[str, tuple[type[DataType], ...]]] = {
    "type": TEXT,
    "payload": (*TEXT, *NESTED, VariantType, BinaryType),
    "queue": TEXT,
    "priority": WHOLE,
    "run_at": TIME,
    "key": TEXT,
    "id": TEXT,
    "meta": (*TEXT, StructType, MapType),
    "tenant": TEXT,
    "max_attempts": WHOLE,
    "timeout_seconds": NUMBER,
}
"""By name, in the order in which they are told. Only `type` must be there."""

_encoder: Final = msgspec.json.Encoder()
_meta_decoder: Final = msgspec.json.Decoder(dict[str, Any])


class Plan(Struct, frozen=True):
    """How the columns of one schema are read; made on the driver, pickled to the tasks."""

    schema: StructType
    codec: str
    """Of the payloads."""

    @property
    def has_ids(self) -> bool:
        return "id" in self.schema.names

    def values(self, batch: Array) -> dict[str, Values]:
        """The columns of a record batch, by name."""
        return {
            field.name: _reader(field.name, field.dataType)(batch.column(index))
            for index, field in enumerate(self.schema.fields)
        }


def plan(schema: StructType) -> Plan:
    """Raises one error that says what is wrong with a schema and what is accepted."""
    if "type" not in schema.names:
        raise InvalidInput(f"a frame of jobs needs a column 'type'; {_accepted()}")
    for field in schema.fields:
        if schema.names.count(field.name) > 1:
            raise InvalidInput(f"there are several columns {field.name!r}")
        kinds = ACCEPTED.get(field.name)
        if kinds is None:
            raise InvalidInput(f"column {field.name!r} is not one of a job; {_accepted()}")
        if not isinstance(field.dataType, kinds):
            raise InvalidInput(
                f"column {field.name!r} is {field.dataType.simpleString()}; it can be "
                f"{' or '.join(kind.typeName() for kind in kinds)}"
            )
    is_binary = "payload" in schema.names and isinstance(schema["payload"].dataType, BinaryType)
    return Plan(schema, BYTES if is_binary else DEFAULT_CODEC)


def _accepted() -> str:
    return f"the columns are {', '.join(ACCEPTED)}, of which all but type are optional"


def _reader(name: str, type: DataType) -> Read:
    if name == "meta":
        return _texts_to_meta if isinstance(type, StringType) else _plain(type)
    if name == "payload":
        return _payloads(type)
    if isinstance(type, TIME):
        return _seconds
    if isinstance(type, DecimalType):
        return lambda column: pc.cast(column, pa.float64()).to_pylist()
    return lambda column: column.to_pylist()


def _payloads(type: DataType) -> Read:
    """JSON texts, or the bytes of a binary column as they are."""
    if isinstance(type, (StringType, BinaryType)):
        return lambda column: column.to_pylist()
    read = _plain(type)
    return lambda column: [
        None if value is None else _encoder.encode(value) for value in read(column)
    ]


def _plain(type: DataType) -> Read:
    convert = _converter(type)
    if convert is None:
        return lambda column: column.to_pylist()
    return lambda column: [
        None if value is None else convert(value) for value in column.to_pylist()
    ]


def _converter(type: DataType) -> Callable[[Any], Any] | None:
    """From what Arrow gives for a nested value to what JSON is made of; None: it is that."""
    match type:
        case VariantType():
            return _variant
        case MapType():
            inside = _converter(type.valueType)
            return lambda pairs: {str(key): _inside(inside, value) for key, value in pairs}
        case ArrayType():
            element = _converter(type.elementType)
            return element and (lambda values: [_inside(element, value) for value in values])
        case StructType():
            fields = {field.name: _converter(field.dataType) for field in type.fields}
            if not any(fields.values()):
                return None
            return lambda value: {name: _inside(fields[name], value[name]) for name in fields}
        case _:
            return None


def _inside(convert: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


def _variant(value: dict[str, bytes]) -> Any:
    return msgspec.json.decode(VariantVal(value["value"], value["metadata"]).toJson())


def _texts_to_meta(column: Array) -> Values:
    try:
        return [None if text is None else _meta_decoder.decode(text) for text in column.to_pylist()]
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"column 'meta' must hold JSON objects ({error})") from None


def _seconds(column: Array) -> Values:
    micros = pc.cast(pc.cast(column, pa.timestamp("us", tz=column.type.tz)), pa.int64())
    return [None if value is None else value / MICROSECONDS for value in micros.to_pylist()]
