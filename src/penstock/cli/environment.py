"""Which variable of the environment an error is about: whoever reads it has not typed the value."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from penstock.address import parse
from penstock.errors import InvalidInput, PayloadTooLarge, PenstockError
from penstock.errors.addresses import without_credentials

ADDRESS: Final = "PENSTOCK_URL"
_PREFIXES: Final = ("PENSTOCK_WORKER_", "PENSTOCK_MONITOR_", "PENSTOCK_")
_SIZE: Final = "PENSTOCK_PAYLOAD_BYTES_MAX"


def with_variable(error: PenstockError, typed: Sequence[str]) -> str:
    """The message, and the variable that the value it speaks of comes from, if one does.

    `typed` is the command line: what stands there comes from nowhere else.
    """
    message = str(error)
    if "PENSTOCK_" in message:
        return message
    # Also as in --url=…
    known = {words for one in typed for words in (one, one.partition("=")[2])}
    if isinstance(error, PayloadTooLarge) and os.environ.get(_SIZE) == str(error.limit_bytes):
        return f"{message} (the limit comes from {_SIZE} in the environment)"
    for name, value in os.environ.items() if isinstance(error, InvalidInput) else ():
        if not name.startswith("PENSTOCK_") or name == ADDRESS or value in known:
            continue
        if _is_spoken_of(name, value, message):
            return f"{message} (it comes from {name} in the environment)"
    if os.environ.get(ADDRESS) not in known and _is_address_spoken_of(error, message):
        return f"{message} (the address comes from {ADDRESS} in the environment)"
    return message


def _is_spoken_of(name: str, value: str, message: str) -> bool:
    """Whether it is shown as a value of that option; several stand there with blanks between."""
    prefix = next(prefix for prefix in _PREFIXES if name.startswith(prefix))
    option = name.removeprefix(prefix).lower()
    return f"{option}={value}" in message or any(repr(one) in message for one in value.split())


def _is_address_spoken_of(error: PenstockError, message: str) -> bool:
    said = os.environ.get(ADDRESS)
    if not said:
        return False
    shown = without_credentials(said)
    if shown == getattr(error, "url", None) or ("://" in shown and shown in message):
        return True
    try:
        whole = parse(said, {}).known_as
    except InvalidInput:
        # It is no address at all, which the message itself is about.
        return False
    return whole.partition("?")[0] in message
