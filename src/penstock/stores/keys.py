"""Which names an object may have, the same in every store."""

from __future__ import annotations

import re

from penstock.errors import InvalidInput

KEY_BYTES_MAX = 900

_SEGMENT = r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._=-]+"
_KEY = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*\Z")
_SEGMENT_ALONE = re.compile(rf"{_SEGMENT}\Z")


def check_key(key: str) -> None:
    """Refuses what would not mean the same in every store, or would leave the store's root."""
    if len(key) > KEY_BYTES_MAX or not _KEY.match(key):
        raise InvalidInput(
            f"{key!r} can't be an object's key: use at most {KEY_BYTES_MAX} characters, segments "
            "of letters, digits and '._=-' joined by single slashes, none of them '.' or '..'"
        )


def check_prefix(prefix: str) -> None:
    """A prefix is the beginning of a key: nothing, a key, or a key and its slash."""
    if prefix:
        check_key(prefix.removesuffix("/"))


def is_segment(name: str) -> bool:
    """Whether a file's or folder's name can be a part of a key."""
    return _SEGMENT_ALONE.match(name) is not None
