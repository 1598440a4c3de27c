"""Names that nobody else has."""

from __future__ import annotations

import os
import random
import secrets
import time

_generator = random.Random(os.urandom(32))
# A forked child would otherwise draw the same ids as its parent.
os.register_at_fork(after_in_child=lambda: _generator.seed(os.urandom(32)))


def random_id() -> str:
    """128 random bits as 32 hexadecimal digits, from the system's generator: safe as a secret."""
    return secrets.token_hex(16)


def time_ordered_id() -> str:
    """A UUIDv7: unique, and sorted by the millisecond it was made in. Not a secret."""
    bits = _generator.getrandbits(74)
    value = (
        (time.time_ns() // 1_000_000 & 0xFFFF_FFFF_FFFF) << 80
        | 0x7000 << 64
        | (bits >> 62) << 64
        | 0x8000_0000_0000_0000
        | bits & 0x3FFF_FFFF_FFFF_FFFF
    )
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
