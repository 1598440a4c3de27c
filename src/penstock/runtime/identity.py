"""Names that nobody else has."""

from __future__ import annotations

import os
import random
import secrets
import time

# Of the last 80 bits of a UUIDv7: which are random, and what the version and the variant are.
_RANDOM = 0x0FFF_3FFF_FFFF_FFFF_FFFF
_FIXED = 0x7000_8000_0000_0000_0000

_generator = random.Random(os.urandom(32))
# A forked child would otherwise draw the same ids as its parent.
os.register_at_fork(after_in_child=lambda: _generator.seed(os.urandom(32)))


def random_id() -> str:
    """128 random bits as 32 hexadecimal digits, from the system's generator: safe as a secret."""
    return secrets.token_hex(16)


def time_ordered_id() -> str:
    """A UUIDv7: unique, and sorted by the millisecond it was made in. Not a secret."""
    moment = time.time_ns() // 1_000_000
    number = moment << 80 | _generator.getrandbits(80) & _RANDOM | _FIXED
    data = number.to_bytes(16, "big")
    return f"{data[:4].hex()}-{data[4:10].hex('-', 2)}-{data[10:].hex()}"
