"""Names that nobody else has."""

from __future__ import annotations

import os
import random
import secrets
import time

_VARIANTS = "89ab"

_generator = random.Random(os.urandom(32))
# A forked child would otherwise draw the same ids as its parent.
os.register_at_fork(after_in_child=lambda: _generator.seed(os.urandom(32)))


def random_id() -> str:
    """128 random bits as 32 hexadecimal digits, from the system's generator: safe as a secret."""
    return secrets.token_hex(16)


def time_ordered_id() -> str:
    """A UUIDv7: unique, and sorted by the millisecond it was made in. Not a secret."""
    moment = time.time_ns() // 1_000_000 & 0xFFFF_FFFF_FFFF
    bits = _generator.getrandbits(76)
    text = f"{moment:012x}{bits:019x}"
    # The last two of those bits choose the variant's digit, 8, 9, a or b.
    return (
        f"{text[:8]}-{text[8:12]}-7{text[12:15]}-{_VARIANTS[bits & 3]}{text[15:18]}-{text[18:30]}"
    )
