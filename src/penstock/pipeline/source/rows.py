"""From lines of events to rows, fast: only the fields that a read needs are looked at.

For each read a struct with just those fields is made; the decoder skips all others. What the log
leaves out because it is the default is put back in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, get_args

import msgspec
from msgspec import Raw, Struct

from penstock.errors import Corrupt
from penstock.kernel.events import Event
from penstock.kernel.job import ABSENT, AttemptError
from penstock.pipeline.schemas import EVENTS
from penstock.pipeline.source.chunks import Chunk
from penstock.pipeline.source.columns import JSON_COLUMNS
from penstock.wire.commit import require_count
from penstock.wire.level import UNREADABLE

Row: TypeAlias = Any
"""An event of which only some fields were decoded."""
Keep: TypeAlias = Callable[[Row], bool]

RENAMED: Final = {"checkpoint_commit": "commit"}
"""Columns that can't be called what the log calls the field."""
DERIVED: Final = frozenset({"commit"})
"""Columns that no event has as a field."""

_PYTHON_TYPES: Final[Mapping[str, Any]] = {
    "string": str | None,
    "bigint": int | None,
    "int": int | None,
    "double": float | None,
    "timestamp": float | None,
}


class Default(Struct, frozen=True):
    """A value that is left out on the wire, and of which events."""

    value: Any
    events: frozenset[str]


def _defaults() -> dict[str, Default]:
    found: dict[str, Default] = {}
    for kind in get_args(Event):
        for field in msgspec.structs.fields(kind):
            if isinstance(field.default, str | int | float | tuple):
                events = found[field.name].events if field.name in found else frozenset()
                tag = str(kind.__struct_config__.tag)
                found[field.name] = Default(field.default, events | {tag})
    return found


DEFAULTS: Final = _defaults()


class RowDecoder:
    """Decodes chunks into rows that have these columns; of `events` alone, if any are named."""

    def __init__(
        self, columns: Iterable[str], events: frozenset[str] | None = None, keep: Keep | None = None
    ) -> None:
        names = {*columns} - DERIVED
        if events is not None or names & set(DEFAULTS):
            names.add("event")
        self._decoder = msgspec.json.Decoder(_row_type(names))
        self._events = events
        self._keep = keep

    def rows(self, chunk: Chunk) -> list[Row]:
        try:
            rows: list[Row] = self._decoder.decode_lines(chunk.lines)
        except UNREADABLE as error:
            raise Corrupt(chunk.name, f"an event in it can't be read ({error})") from error
        require_count(chunk.name, chunk.events, len(rows))
        if self._events is not None:
            events = self._events
            rows = [row for row in rows if row.event in events]
        return rows if self._keep is None else list(filter(self._keep, rows))


def _row_type(names: Iterable[str]) -> type[Struct]:
    fields = [_field(name) for name in sorted(names)]
    return msgspec.defstruct("Row", fields, rename=RENAMED, gc=False)


def _field(name: str) -> tuple[str, Any, Any]:
    if name in JSON_COLUMNS:
        return name, Raw, ABSENT
    if name == "errors":
        return name, tuple[AttemptError, ...] | None, None
    return name, _PYTHON_TYPES[EVENTS[name].dataType.simpleString()], None
