"""The format level: which kinds of events and fields the stored bytes may contain.

A new kind or field raises the level, and is written only after a commit at the new level; code
below that level neither commits nor checkpoints.

    1  the first
    2  bulk imports: `imported`, `admitted`, `import_staged`, `import_advanced`, `import_aborted`
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec

from penstock.errors import Corrupt, NewerFormat

FORMAT_LEVEL: Final = 2

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError)
"""What altered bytes raise when they are decoded; msgspec lets the second one through as it is."""


def require_known(key: str, level: int) -> None:
    if level > FORMAT_LEVEL:
        raise NewerFormat(key, level, FORMAT_LEVEL)


def digest(data: bytes) -> str:
    """Half of a SHA-256, which processors have built in; 128 bits are plenty against accidents."""
    return sha256(data).hexdigest()[:32]


def signed(line: bytes) -> bytes:
    """A JSON object with the digest of all its other fields as the last one."""
    rest = line.removesuffix(b"}")
    return b"".join((rest, _SIGNATURE, digest(rest).encode(), _SIGNATURE_END))


def require_signature(key: str, line: bytes) -> None:
    """Refuses a signed object of which even one bit was changed."""
    rest, _, signature = line.rpartition(_SIGNATURE)
    if signature != digest(rest).encode() + _SIGNATURE_END:
        raise Corrupt(key, "its digest is not that of its content: truncated or altered")


_SIGNATURE: Final = b',"digest":"'
_SIGNATURE_END: Final = b'"}'
