"""The Lua of this folder, by name. Scripts compare and write; none of them knows a rule."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

from msgspec import Struct


class Script(Struct, frozen=True):
    name: str
    text: str
    digest: str
    """What the server calls it."""


@cache
def script(name: str) -> Script:
    text = _read("prelude") + _read(name)
    digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return Script(name, text, digest)


def _read(name: str) -> str:
    return (files(__package__) / f"{name}.lua").read_text(encoding="utf-8")
