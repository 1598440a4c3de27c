"""Small JSON as fewer bytes: deflated, beginning from the words that all of ours has in common.

A commit of one event is mostly names of fields, which are the same every time. Whoever compresses
it by itself has to spell them out; beginning from a vocabulary leaves a third. Long bytes are left
as they are: what repeats in them most stores can see for themselves, and their names weigh little.

The first byte says how the rest is packed. What begins with no such mark is as it is, as JSON. The
vocabulary belongs to its mark: a better one gets a mark of its own.
"""

from __future__ import annotations

import zlib
from typing import Final

from penstock.errors import Corrupt

PACKED_BYTES_MAX: Final = 16_384
"""What is longer is left as it is, unless whoever keeps it says otherwise."""
UNPACKED_BYTES_MAX: Final = 64 * 1024 * 1024
_AS_IT_IS: Final = b"\x00"
_DEFLATED: Final = b"\x01"
_MARKS: Final = (_AS_IT_IS, _DEFLATED)
_SMALL_BYTES: Final = 4_096
"""Up to here small tables do, which take less time to make than a small commit to pack."""
_INFLATE_BITS: Final = -15
_WORDS: Final = (
    b'"archived_at":"cancelled"failed","kind":"error":"traceback":"retry_at":"meta":{"key":'
    b'"priority":"payload_codec":"result_codec":"payload_key":"result_key":"max_attempts":'
    b'"lease_seconds":"progress":"errors":[{"message":"keep_seconds":"operations":["'
    b'{"id":"01","tenant":"default","queue":"default","type":"","life":000000,"enqueued_at":17'
    b',"run_at":17,"payload":{"","state":"pending","trail":[]'
    b',"state":"running","attempt":1,"lease":{"fence":,"secret":"","lease_until":17'
    b',"state":"completed","attempt":1,"result":null,"ended_lease":{"fence":000000,"secret":""}'
    b',"started_at":17,"ended_at":17,"updated_at":17,"trail":[000000,000000],"digest":"'
    b'{"format":2,"commit":,"commit_id":"","writer":"","epoch":0,"at":17,"events":1,"body":"'
    b'","previous":"","digest":""}\n{"event":"enqueued","position":000000,"at":17'
    b',"tenant":"default","queue":"default","type":"","id":"01","life":000000,"payload":{"'
    b'","run_at":17}\n{"event":"claimed","position":000000,"at":17,"tenant":"default","queue":'
    b'"default","type":"","id":"01","life":000000,"attempt":1,"operation":"","lease_until":17'
    b',"enqueued_at":17,"run_at":17}\n{"event":"completed","position":000000,"at":17,"tenant":'
    b'"default","queue":"default","type":"","id":"01","life":000000,"attempt":1,"failures":0'
    b',"enqueued_at":17,"due_at":17,"started_at":17,"result":null}\n'
)
"""What is frequent comes last: what is near costs least."""


# Each is set up once, and its copies are used.
_small: Final = zlib.compressobj(6, zlib.DEFLATED, -12, 5, zdict=_WORDS)
_large: Final = zlib.compressobj(1, zlib.DEFLATED, -15, 8, zdict=_WORDS)


def pack(data: bytes, bytes_max: int = PACKED_BYTES_MAX) -> bytes:
    """The same bytes if that would save nothing, or if they are more than that."""
    if data.startswith(_MARKS):
        return _AS_IT_IS + data
    if len(data) > bytes_max:
        return data
    deflate = (_small if len(data) <= _SMALL_BYTES else _large).copy()
    packed = _DEFLATED + deflate.compress(data) + deflate.flush()
    return packed if len(packed) < len(data) else data


def unpack(name: str, packed: bytes) -> bytes:
    if not packed.startswith(_MARKS):
        return packed
    if packed.startswith(_AS_IT_IS):
        return packed[1:]
    inflate = zlib.decompressobj(_INFLATE_BITS, zdict=_WORDS)
    try:
        data = inflate.decompress(packed[1:], UNPACKED_BYTES_MAX)
    except zlib.error as error:
        raise Corrupt(name, f"it can't be unpacked: {error}") from error
    if not inflate.eof:
        raise Corrupt(name, "it can't be unpacked: it is cut off or too long")
    return data
