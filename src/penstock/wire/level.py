"""The format level: which kinds of events and fields the stored bytes may contain.

A new kind or field raises the level, and is written only after a commit at the new level; code
below that level neither commits nor checkpoints.

    1  the first
    2  bulk imports: `imported`, `admitted`, `import_staged`, `import_advanced`, `import_aborted`
    3  moves: `queue_moved`, `queue_reopened`, `filling_begun`, `filling_ended`, `filling_aborted`,
       `adopted`, `key_carried`, the `fence` of `claimed`; only in queues that took part in one

So code of level 2 goes on with a queue that never moved, and is refused by one that did.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

import msgspec

from penstock.errors import Corrupt, NewerFormat
from penstock.kernel.moves import Move

FORMAT_LEVEL: Final = 3
"""The highest that this code can read."""
UNMOVED_LEVEL: Final = 2

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError)
"""What altered bytes raise when they are decoded; msgspec lets the second one through as it is."""


def level_of(moves: Sequence[Move]) -> int:
    """The level to write a queue at that took part in these moves: no higher than it has to be."""
    return FORMAT_LEVEL if moves else UNMOVED_LEVEL


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
