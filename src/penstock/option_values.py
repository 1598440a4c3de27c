"""What an option of a queue can be, wherever it was said."""

from __future__ import annotations

import re
from math import isfinite
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from penstock.engines.ledger.marker import LAYOUTS
from penstock.engines.records.tasks.names import INDEX_MODES, shards_in
from penstock.errors import InvalidInput, InvalidJob
from penstock.errors.input import shown
from penstock.kernel.plain import SECONDS_MAX, WHOLE_MAX, is_a, plain_number, plain_text
from penstock.kernel.retry import RetryPolicy
from penstock.kernel.settings import DEFAULT_SETTINGS, Settings

_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,49}")
_PREFIX: Final = re.compile(r"[A-Za-z0-9._:-]+")
OUTCOME_SECONDS_MIN: Final = 0.001
"""Who waits for no answer at all is told nothing but that it is unknown."""
_ON: Final = {"on": True, "true": True, "1": True, "yes": True}
_OFF: Final = {"off": False, "false": False, "0": False, "no": False}


class Refused(Exception):  # a word between two files
    """A value that an option can't have; whoever knows where it came from says so."""

    def __init__(self, rule: str, *, is_shown: bool = True) -> None:
        super().__init__(rule)
        self.rule = rule
        self.is_shown = is_shown


class Bounds(NamedTuple):
    """What a number among the options can be."""

    least: float
    most: float
    rule: str
    is_whole: bool = False

    def within(self, number: float) -> float:
        if not self.least <= number <= self.most or (self.is_whole and number != int(number)):
            raise Refused(self.rule)
        return int(number) if self.is_whole else float(number)


NUMBERS: Final = {
    "payload_bytes_max": Bounds(1, WHOLE_MAX, "a whole number of bytes, 1 or more", is_whole=True),
    "outcome_seconds_max": Bounds(
        OUTCOME_SECONDS_MIN, SECONDS_MAX, f"{OUTCOME_SECONDS_MIN:g} to {SECONDS_MAX:,.0f} seconds"
    ),
}
"""Every option that is a number; what the settings of the whole queue can be, `Settings` says."""


def convert_option(name: str, value: Any, default: Any) -> Any:
    """As it is kept, or `Refused`."""
    if isinstance(default, bool):
        return _switch(value)
    if name in NUMBERS:
        return NUMBERS[name].within(_number(name, value))
    if value is None and default is None:
        return None
    try:
        text = plain_text(name, value)
    except InvalidJob as error:
        raise Refused(error.rule) from None
    _check_text(name, text)
    return text


def _check_text(name: str, value: str) -> None:
    if name == "endpoint":
        _check_endpoint(value)
    elif name == "layout" and value not in LAYOUTS:
        raise Refused(f"known are {', '.join(LAYOUTS)}")
    elif name == "index" and value not in INDEX_MODES:
        raise Refused(f"known are {', '.join(INDEX_MODES)}")
    elif name == "schema" and not _SCHEMA.fullmatch(value):
        raise Refused("small letters, digits and _, at most 50")
    elif name == "prefix" and not _PREFIX.fullmatch(value):
        raise Refused("letters, digits and ._:- are fine")
    elif name == "shards":
        try:
            shards_in(value)
        except ValueError:
            raise Refused("hex digits, as in 0-7 or 0,4,c") from None


def _check_endpoint(endpoint: str) -> None:
    try:
        parts = urlsplit(endpoint)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fine = False
    if "@" in endpoint:
        raise Refused("credentials come from the environment", is_shown=False)
    if not fine or any(letter.isspace() for letter in endpoint):
        raise Refused("write http://host:port or https://host")


def convert_retry(value: Any) -> RetryPolicy:
    if is_a(value, RetryPolicy):
        return value
    example = 'a RetryPolicy, or JSON such as {"initial_seconds": 5}'
    try:
        return msgspec.json.decode(plain_text("default_retry", value), type=RetryPolicy)
    except (msgspec.MsgspecError, InvalidInput) as error:
        raise Refused(f"{example} ({error})") from None


def convert_setting(name: str, value: Any) -> float | None:
    """One of the whole queue's, which knows itself what it can be."""
    if value is None and getattr(DEFAULT_SETTINGS, name) is None:
        return None
    number = _number(name, value)
    alone: dict[str, Any] = {name: number}
    try:
        Settings(**alone)
    except InvalidJob as error:
        raise Refused(error.rule) from None
    return number


def _switch(value: Any) -> bool:
    words = value if is_a(value, str) else shown(value)
    switch = {**_ON, **_OFF}.get(words.lower())
    if switch is None:
        raise Refused("on or off")
    return switch


def _number(name: str, value: Any) -> float:
    try:
        # From a URL or the environment it comes as text.
        number = float(value) if is_a(value, str) else plain_number(name, value)
    except ValueError:
        raise Refused("it must be a number") from None
    if not isfinite(number):
        raise Refused("it must be a finite number")
    return int(number) if number == int(number) and "seconds" not in name else number
