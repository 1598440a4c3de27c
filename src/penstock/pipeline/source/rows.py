"""From lines of events to rows, fast: only the fields that a read needs are looked at.

For each read and each kind of event a struct is made that has just those fields, with the defaults
that the wire leaves out; the decoder skips all else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import or_
from typing import Any, Final, TypeAlias, get_args

import msgspec
from msgspec import NODEFAULT, Raw, Struct
from msgspec.structs import FieldInfo

from penstock.errors import Corrupt
from penstock.kernel.events import Event
from penstock.kernel.job import ABSENT
from penstock.pipeline.source.chunks import Chunk
from penstock.pipeline.source.columns import JSON_COLUMNS, Row
from penstock.wire.commit import require_count
from penstock.wire.level import UNREADABLE

Keep: TypeAlias = Callable[[Row], bool]

CHECKPOINT_COMMIT: Final = "checkpoint_commit"
"""What the field `commit` of `checkpointed` is called here, where a commit is an event's own."""


class RowDecoder:
    """Decodes chunks into rows that have these fields; of some `events` alone, if any are named."""

    def __init__(
        self, fields: Iterable[str], events: frozenset[str] | None = None, keep: Keep | None = None
    ) -> None:
        wanted = set(fields)
        kinds = {
            _tag(kind): _row_type(kind, wanted if events is None or _tag(kind) in events else set())
            for kind in get_args(Event)
        }
        self._decoder = msgspec.json.Decoder(reduce(or_, kinds.values()))
        self._kinds = None if events is None else frozenset(kinds[event] for event in events)
        self._keep = keep

    def rows(self, chunk: Chunk) -> list[Row]:
        try:
            rows: list[Row] = self._decoder.decode_lines(chunk.lines)
        except UNREADABLE as error:
            raise Corrupt(chunk.name, f"an event in it can't be read ({error})") from error
        require_count(chunk.name, chunk.events, len(rows))
        if (kinds := self._kinds) is not None:
            rows = [row for row in rows if row.__class__ in kinds]
        return rows if self._keep is None else list(filter(self._keep, rows))


def event_of(row: Row) -> str:
    return _tag(row.__class__)


def _tag(kind: type[Struct]) -> str:
    return str(kind.__struct_config__.tag)


def _row_type(kind: type[Struct], wanted: set[str]) -> type[Struct]:
    fields = {_name(field): field for field in msgspec.structs.fields(kind)}
    return msgspec.defstruct(
        "Row",
        [(name, *_type(name, fields[name])) for name in sorted(wanted & set(fields))],
        rename={CHECKPOINT_COMMIT: "commit"},
        tag=_tag(kind),
        tag_field="event",
        gc=False,
        kw_only=True,
    )


def _name(field: FieldInfo) -> str:
    return CHECKPOINT_COMMIT if field.name == "commit" else field.name


def _type(name: str, field: FieldInfo) -> tuple[Any, ...]:
    if name in JSON_COLUMNS:
        # As it is: nobody looks inside, and a default is told by being absent.
        return Raw, ABSENT
    return (field.type,) if field.default is NODEFAULT else (field.type, field.default)
