"""The format level: which kinds of events and fields the stored bytes may contain.

A new kind or field raises the level, and is written only after a commit at the new level; code
below that level neither commits nor checkpoints.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import msgspec

from penstock.errors import NewerFormat

FORMAT_LEVEL: Final = 1

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError)
"""What altered bytes raise when they are decoded; msgspec lets the second one through as it is."""


def require_known(key: str, level: int) -> None:
    if level > FORMAT_LEVEL:
        raise NewerFormat(key, level, FORMAT_LEVEL)


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
