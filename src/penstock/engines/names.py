"""The names of what every engine keeps beside the queue, relative to its root.

    data/{job}/{milliseconds}-{digest}-{nonce}  payloads and results above the inline limit
    worker/{id}.json                       registrations, for people to look at
    leader/{role}.json                     who does the housekeeping
    probe/{nonce}                          short-lived: do conditional writes work, what time is it
    identity                               of a store of records: what tables made of it know it by

Ids are written in a fixed alphabet: letters, digits, `-` and `_` as they are, every other byte as
`=` and two hex digits. A long one is cut and ends in its digest, so that no store finds a name too
long.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

DATA: Final = "data/"
WORKERS: Final = "worker/"
PROBES: Final = "probe/"
IDENTITY: Final = "identity"

NAME_CHARACTERS_MAX: Final = 96
"""Of a job's or worker's name within a key."""
_CUT: Final = "=="
"""In an encoded name `=` is followed by two hex digits, so nothing else looks like a cut."""
_DIGEST_CHARACTERS: Final = 32
_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def data_key(id: str, at: float, digest: str, size_bytes: int, nonce: str) -> str:
    folder = f"{DATA}{cut(encoded(id), NAME_CHARACTERS_MAX)}"
    return f"{folder}/{int(at * 1_000):012x}-{digest}-{size_bytes:x}-{nonce}"


def digest_in(key: str) -> str:
    """The digest that the content of a side object must have."""
    return key.rsplit("/", 1)[-1].split("-")[1]


def size_in(key: str) -> int:
    """How large the content of a side object is, whether or not it is still there."""
    return int(key.rsplit("/", 1)[-1].split("-")[2], 16)


def worker_key(id: str) -> str:
    return f"{WORKERS}{cut(encoded(id), NAME_CHARACTERS_MAX)}.json"


def leader_key(role: str) -> str:
    return f"leader/{role}.json"


def encoded(name: str) -> str:
    return "".join(chr(byte) if byte in _PLAIN else f"={byte:02x}" for byte in name.encode("utf-8"))


def cut(name: str, characters_max: int) -> str:
    """An encoded name that is too long, as its beginning and its digest."""
    if len(name) <= characters_max:
        return name
    kept = characters_max - len(_CUT) - _DIGEST_CHARACTERS
    return f"{name[:kept]}{_CUT}{sha256(name.encode()).hexdigest()[:_DIGEST_CHARACTERS]}"
