"""Making small what stays in memory: the events of a commit, and records of jobs that have ended.

Both are JSON of a few hundred bytes whose words are always the same. Deflate knows these words from
the start, so that little more than ids, times and digests is left.
"""

from __future__ import annotations

import zlib
from typing import Final

SMALL_BYTES: Final = 4_096
"""Up to here a small window does, which is quickly set up."""
DEFLATED_BYTES_MAX: Final = 1024 * 1024
"""What is larger would keep the event loop for too long, and is kept as it is."""

_WORDS: Final = (
    b'"traceback":"message":"kind":"error":{"reason":"codec":"msgpack","payload_key":"data/'
    b'"priority":"max_attempts":"retry":{"initial_seconds":"timeout_seconds":"key":"key_until":'
    b'"meta":{"trace":"progress_message":"progress":"archived_at":"state":"failed","cancelled",'
    b'"event":"failed","retried","released","snoozed","extended","expired","replayed","cancelled",'
    b'"operations":["errors":[{"failures":"worker":"result_key":"result_codec":'
    b'"state":"completed","attempt":1,"result":null,"ended_lease":{"fence":000000,"secret":"'
    b'"},"started_at":1,"ended_at":1,"updated_at":1,"trail":[000000],"digest":"'
    b'{"id":"01-7-","tenant":"default","queue":"default","type":"work","life":000000,'
    b'"enqueued_at":1,"run_at":1,'
    b'{"format":2,"commit":1,"commit_id":"","writer":"","epoch":0,"at":1,"events":1,"body":"",'
    b'"previous":"","digest":""}\n{"event":"enqueued","position":1,"at":1,"tenant":"default",'
    b'"queue":"default","type":"work","id":"01-7-","life":000000,"run_at":1,"payload":{"'
    b'{"event":"completed","position":000000,"at":1,"tenant":"default","queue":"default",'
    b'"type":"work","id":"","life":000000,"attempt":1,"failures":0,"enqueued_at":1,"due_at":1,'
    b'"started_at":1,"result":null}\n{"event":"claimed","position":000000,"at":1,"tenant":'
    b'"default","queue":"default","type":"work","id":"","life":000000,"attempt":1,"operation":"",'
    b'"lease_until":1,"enqueued_at":1,"run_at":1}\n'
)
"""What is stored can only be read with these: others would be of another format."""

_small: Final = zlib.compressobj(2, zlib.DEFLATED, -11, 2, zdict=_WORDS)
_large: Final = zlib.compressobj(1, zlib.DEFLATED, -15, 8, zdict=_WORDS)


def deflated(data: bytes) -> bytes | None:
    """None if it is too large, or would not get smaller."""
    if len(data) > DEFLATED_BYTES_MAX:
        return None
    # Each is set up once, and its copies are used.
    deflate = (_small if len(data) <= SMALL_BYTES else _large).copy()
    found = deflate.compress(data) + deflate.flush()
    return found if len(found) < len(data) else None


def inflated(data: bytes) -> bytes:
    return zlib.decompressobj(-15, zdict=_WORDS).decompress(data)
