"""What an annotation says of a value that went through JSON.

JSON has no bytes, no sets and no keys but text. An argument whose annotation names one of these
comes back as what it was, since it is read by its type; one that says nothing would not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import inspect

_NOT_IN_JSON: Final = (
    inspect.BytesType,
    inspect.ByteArrayType,
    inspect.MemoryViewType,
    inspect.SetType,
    inspect.FrozenSetType,
)


def is_brought_back(annotation: Any) -> bool:
    """Whether it names something that JSON would have turned into something else.

    Structs and dataclasses are not looked into: what is in them is declared by themselves.
    """
    met: set[Any] = set()
    left = [inspect.type_info(annotation)]
    while left:
        kind = left.pop()
        if isinstance(kind, _NOT_IN_JSON):
            return True
        if isinstance(kind, inspect.DictType) and not isinstance(
            kind.key_type, inspect.StrType | inspect.AnyType
        ):
            return True
        if isinstance(kind, inspect.TypedDictType):
            if kind.cls in met:
                continue
            met.add(kind.cls)
        left += _parts(kind)
    return False


def _parts(kind: inspect.Type) -> Iterator[inspect.Type]:
    match kind:
        case inspect.Metadata():
            yield kind.type
        case inspect.UnionType():
            yield from kind.types
        case inspect.DictType():
            yield kind.value_type
        case inspect.ListType() | inspect.VarTupleType() | inspect.CollectionType():
            yield kind.item_type
        case inspect.TupleType():
            yield from kind.item_types
        case inspect.TypedDictType() | inspect.NamedTupleType():
            for field in kind.fields:
                yield field.type
        case _:
            pass  # the others have no parts, or declare them themselves
