"""Values as JSON that can be read back: checked before anything is stored.

The encoder alone does not do. It takes a `Raw` for what it says it is, so garbage in one would be
in the queue for good, with everything around it; it writes NaN as null; and it goes deeper into a
nested value than another process may be able to follow. So what was written is read once, here. If
that gives what was passed, as it nearly always does, nothing else has to be asked.

It also writes bytes as base64, sets as lists and numbers that are keys as text, and nobody could
tell afterwards. In a payload these are refused, since nothing has been done yet; a result is what
work has led to, and is stored as JSON has it.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw

from penstock.kernel.plain import describe, plain_scalar

Value = TypeVar("Value")

NESTING_MAX: Final = 100
"""How deep lists and objects may lie in each other: less than any reader of JSON can follow."""
SURELY_SHALLOW_BYTES: Final = 2 * NESTING_MAX
"""Every level takes two brackets, so what is shorter can't be nested too deep."""

DIGITS_MAX: Final = 640
"""Of a whole number: the fewest that a Python can be set to read (`PYTHONINTMAXSTRDIGITS`)."""
_DIGITS_AS_ONE: Final = bytes.maketrans(b"123456789", b"000000000")
_MANY_DIGITS: Final = b"0" * (DIGITS_MAX + 1)
_WHOLE_LIMIT: Final = 10**DIGITS_MAX

_BYTES: Final = (bytes, bytearray, memoryview)
_SETS: Final = (set, frozenset)
_CONTAINERS: Final = (dict, list, tuple)
_encode: Final = msgspec.json.Encoder(enc_hook=plain_scalar).encode
_decode: Final = msgspec.json.Decoder().decode


class Unreadable(ValueError):
    """What was or would be written can't be read by everybody."""


def encode_value(value: Any) -> bytes:
    """The value as one line of JSON that everybody can read."""
    data = _encode(value)
    if len(data) <= SURELY_SHALLOW_BYTES and _decode(data) == value:
        return data
    return readable(value, data)


def encode_exact(value: Any) -> bytes:
    """The same for a value that has to come back as it was."""
    data = _encode(value)
    if len(data) <= SURELY_SHALLOW_BYTES and _decode(data) == value:
        return data
    return readable(value, data, exact=True)


def readable(value: Any, data: bytes, *, exact: bool = False) -> bytes:
    """What was written for a value, known to be read back as one; without what breaks lines."""
    found = read(data)
    if found == value:
        return data
    if exact:
        _require_exact(value)
    # A tuple, a date, a number as a key; or a value that only looks like one.
    if b"null" in data:
        _require_finite(msgspec.to_builtins(value, enc_hook=_plain, str_keys=True))
    return one_line(data)


def read(data: bytes) -> Any:
    try:
        found = _decode(data)
        if len(data) > SURELY_SHALLOW_BYTES and data.count(b"[") + data.count(b"{") > NESTING_MAX:
            require_shallow(found)
        # Each byte is looked at once: an expression would begin anew at every digit of a long run.
        if len(data) > DIGITS_MAX and _MANY_DIGITS in data.translate(_DIGITS_AS_ONE):
            _require_short(found)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise Unreadable(str(error)) from None
    return found


def one_line(data: bytes) -> bytes:
    return msgspec.json.format(data, indent=-1) if b"\n" in data or b"\r" in data else data


def require_shallow(value: Any) -> None:
    """Level by level, so that the depth of a value is no problem of its own."""
    level = [value]
    for _ in range(NESTING_MAX + 1):
        level = _within(level)
        if not level:
            return
    raise Unreadable(f"it is nested more than {NESTING_MAX} deep")


def _require_short(value: Any) -> None:
    level = [value]
    while level:
        if any(type(one) is int and abs(one) >= _WHOLE_LIMIT for one in level):
            raise Unreadable(f"a whole number has at most {DIGITS_MAX} digits; pass it as text")
        level = _within(level)


def as_read(value: Value) -> Value:
    """A struct as everybody will read it: what does not fit its types is refused."""
    try:
        return msgspec.json.decode(_encode(value), type=type(value))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise Unreadable(str(error)) from None


def decode_meta(value: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """How many bytes it takes, and the same as it will be read."""
    try:
        data = encode_value(value)
    except Exception as error:  # noqa: BLE001  # a value of anybody's class may raise anything
        raise Unreadable(describe(error)) from None
    return len(data), msgspec.json.decode(data, type=dict[str, Any])


def _require_exact(value: Any) -> None:
    """Not within structs and dataclasses: whoever reads them by their type gets back what it says.

    What was written was not nested too deep, so neither is this.
    """
    level = [value]
    while level:
        for one in level:
            if isinstance(one, _BYTES):
                raise Unreadable("JSON makes text of the bytes in it; codec='msgpack' keeps them")
            if isinstance(one, _SETS):
                raise Unreadable("JSON makes a list of the set in it: pass a list")
            if isinstance(one, dict) and not all(isinstance(key, str) for key in one):
                raise Unreadable(
                    "JSON makes text of the keys in it that are none; codec='msgpack' keeps them"
                )
        level = _within(level)


def _within(level: list[Any]) -> list[Any]:
    return [
        inner
        for outer in level
        if isinstance(outer, _CONTAINERS)
        for inner in (outer.values() if isinstance(outer, dict) else outer)
    ]


def _plain(value: Any) -> Any:
    return _decode(value) if isinstance(value, Raw) else plain_scalar(value)


def _require_finite(value: Any) -> None:
    level = [value]
    while level:
        if any(isinstance(one, float) and not isfinite(one) for one in level):
            raise Unreadable("JSON has neither NaN nor infinity: pass None, or name another codec")
        level = _within(level)
