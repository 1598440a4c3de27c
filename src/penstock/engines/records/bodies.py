"""How stores keep the bodies of records: those of finished jobs packed, since they stay."""

from __future__ import annotations

from typing import Final

from penstock.ports.records import Record, Shelf
from penstock.wire.packed import pack

PACKED_TOGETHER_MAX: Final = 16
"""Where more are written together, what each takes adds up, and their events share a commit."""


def kept_body(record: Record, together: int) -> bytes:
    """What to keep of a record that is written with so many; `unpack` gives its body again."""
    is_live = record.shelf in (Shelf.PENDING, Shelf.RUNNING)
    return record.body if is_live or together > PACKED_TOGETHER_MAX else pack(record.body)
