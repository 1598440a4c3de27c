"""The Lua of this folder, by name. Scripts compare and write; none of them knows a rule."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from functools import cache
from importlib.resources import files

from msgspec import Struct


class Room(StrEnum):
    """What a script may do where the server has no memory left, as the server is told."""

    UNSAID = ""
    """As servers before 7.0 do: it is refused when it first writes what takes memory."""
    ADDS = "#!lua\n"
    """It is refused before it begins."""
    SPARES = "#!lua flags=allow-oom\n"
    """It goes through."""


class Script(Struct, frozen=True):
    name: str
    text: str
    digest: str
    """What the server calls it."""


@cache
def script(name: str, room: Room) -> Script:
    text = room + _read("prelude") + _read(name)
    digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return Script(name, text, digest)


def _read(name: str) -> str:
    return (files(__package__) / f"{name}.lua").read_text(encoding="utf-8")
