"""Plain values: what a caller passes, as the exact type that is stored and read back.

Subclasses of `str`, `int` and `float` mean what they stand for, numpy's numbers too. A `bool` is
no number here, and a number that JSON does not have is none either: it would come back as nothing,
and nobody could read what it stands in.

Nothing is asked of a value before its type is known. An array compares item by item and has no
truth, a proxy raises what it likes; whatever they do, they are refused by the name of the field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from math import isfinite
from numbers import Integral, Real
from typing import Any, Final, TypeGuard, TypeVar

from penstock.errors import InvalidJob

SECONDS_MAX: Final = 1e10
"""Three centuries. What is longer means for ever, and would leave the calendar."""
EPOCH_SECONDS_MAX: Final = 253_402_300_799.0
"""The end of the year 9999: whoever shows or stores times as dates can go no further."""
WHOLE_MAX: Final = 2**53
"""Whole numbers up to here are exact in every reader of JSON, and fit every column."""

ATTEMPTS_MAX: Final = 2**31 - 1
"""How often a job may be tried, at the most: what every column takes."""
POSITION_MAX: Final = 2**63 - 1
"""Positions in layout `tasks` are times, and need every bit."""
ERROR_CHARACTERS_MAX: Final = 4_000
"""How much is kept of what an error says."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")

Plain = TypeVar("Plain")


def is_a(value: object, *kinds: type[Plain]) -> TypeGuard[Plain]:
    """`isinstance` by what it is: what a value says of its own class may be wrong, or raise."""
    return issubclass(type(value), kinds)


def plain_text(field: str, value: object) -> str:
    text = value if type(value) is str else _taken(field, value, _text, "it must be a string")
    if not text.isascii() and _SURROGATE.search(text):
        raise InvalidJob(field, text, "half of a surrogate pair is no character")
    return text


def plain_number(field: str, value: object) -> float:
    if type(value) is not float and type(value) is not int:
        value = _taken(field, value, _number, "it must be a finite number")
    assert isinstance(value, int | float)
    try:
        if isfinite(value):
            return value
    except OverflowError:
        pass  # a whole number that no float can come near
    raise InvalidJob(field, value, "it must be a finite number")


def plain_whole(field: str, value: object, least: int, most: int, rule: str) -> int:
    """A whole number within both bounds; `rule` says so in words."""
    whole = value if type(value) is int else _taken(field, value, _whole, rule)
    if not least <= whole <= most:
        raise InvalidJob(field, value, rule)
    return whole


def plain_switch(field: str, value: object) -> bool:
    """On or off: whatever has a truth."""
    return value if type(value) is bool else _taken(field, value, bool, "True or False")


def plain_items(field: str, value: object, rule: str) -> Iterator[Any]:
    """The items of whatever has some; text is one value and no list of letters.

    What goes wrong in a generator once it has begun is its owner's to see.
    """
    if is_a(value, str, bytes, bytearray):
        raise InvalidJob(field, value, rule)
    return _taken(field, value, iter, rule)


def plain_list(field: str, value: object, rule: str) -> list[Any]:
    return value if type(value) is list else list(plain_items(field, value, rule))


def plain_seconds(field: str, value: object) -> float:
    if type(value) is float and 0.0 <= value <= SECONDS_MAX:
        return value
    seconds = plain_number(field, value)
    if seconds < 0:
        raise InvalidJob(field, value, "it must not be negative")
    if seconds > SECONDS_MAX:
        raise InvalidJob(field, value, f"at most {SECONDS_MAX:,.0f} seconds, three centuries")
    return float(seconds)


def _taken(field: str, value: Any, take: Callable[[Any], Plain | None], rule: str) -> Plain:
    """What a value stands for. Whatever it raises only says that it stands for nothing."""
    try:
        taken = take(value)
    except Exception:  # noqa: BLE001  # anybody's class may raise anything
        taken = None
    if taken is None:
        raise InvalidJob(field, value, rule)
    return taken


def _text(value: Any) -> str | None:
    # Not `str(value)`: a subclass may have its own idea of that, as enumerations do.
    return str.__str__(value) if is_a(value, str) else None


def _whole(value: Any) -> int | None:
    return int(value) if issubclass(type(value), Integral) and not is_a(value, bool) else None


def _number(value: Any) -> float | None:
    if issubclass(type(value), Integral):
        return _whole(value)
    return float(value) if issubclass(type(value), Real) else None


def plain_scalar(value: Any) -> Any:
    """For an encoder that meets a type it does not know: the plain value that it stands for."""
    if isinstance(value, str):
        return plain_text("value", value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(plain_number("value", value))
    kind = type(value)
    if kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_"):
        return bool(value)
    raise TypeError(f"objects of type {kind.__qualname__} have no JSON form")


def describe(error: object) -> str:
    """What to record of an error: its words, or at least what kind of thing it is."""
    words = _words(error)[:ERROR_CHARACTERS_MAX]
    # Names of files may hold bytes that no text can; the failure has to be recorded all the same.
    return words if words.isascii() else words.encode("utf-8", "backslashreplace").decode()


def _words(error: object) -> str:
    try:
        if error is None or (is_a(error, str) and not error):
            return ""
        return f"{error}" or type(error).__name__
    except Exception as broken:  # noqa: BLE001  # an error that can't even say what it is
        return f"{type(error).__name__}, whose words can't be shown: {type(broken).__name__}"
