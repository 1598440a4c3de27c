"""The events of a small commit, packed.

A job that is enqueued, claimed and acked by itself has three commits of a few hundred bytes each,
most of which are the same words: those are in a dictionary that both sides know. What is packed
begins with the dictionary's number, anything else with a brace. Large commits stay as they are,
since packing them would cost more time than they take room.
"""

from __future__ import annotations

import zlib
from typing import Final

PACKED_BYTES_MAX: Final = 4_096
_WINDOW: Final = -12
"""2 to the 12th are as many bytes; without a header or a sum, since a commit has its own digest."""
_MEMORY: Final = 5
_LEVEL: Final = 6
_PLAIN: Final = b"{"
_NUMBER: Final = b"\x01"

# What is stored depends on every byte of it. A better one gets a number of its own.
_DICTIONARY: Final = (
    b'"error":"","kind":"error","run_at":,"traceback":"Traceback (most recent call last):\\n",'
    b'"progress":,"earlier":[],"reason":"","max_attempts":,"priority":,"timeout_seconds":,'
    b'"meta":{},"trace":"","key":"","codec":"raw","payload_key":"data/","result_key":"data/",'
    b'"result_codec":"msgpack","worker":"{"event":"cancelled","{"event":"expired",'
    b'"{"event":"released","{"event":"snoozed","{"event":"failed","{"event":"retried",'
    b'"{"event":"heartbeat","{"event":"replayed","{"event":"archived","clock":1700000000.000000,'
    b'"tenant":"system","queue":"default",000000,"at":17,"lease_until":17,"operation":"",'
    b'"attempt":1,"failures":0,"enqueued_at":17,"due_at":17,"started_at":17,"result":null}\n'
    b'"body":"","previous":"","digest":""}\n{"event":"claimed","position":000000000,"at":17,'
    b'"tenant":"default","queue":"default","type":"","id":"01","life":000000000,"run_at":17,'
    b'"payload":{"attempt":1,"operation":"","lease_until":17,"enqueued_at":17,"run_at":17}\n'
    b'{"format":2,"commit":,"commit_id":"","writer":"","epoch":0,"at":17,"events":1,"body":"",'
    b'"previous":"","digest":""}\n{"event":"completed","{"event":"enqueued",'
    b'"position":000000000,"at":17,"tenant":"default","queue":"default","type":"'
)


def packed(events: bytes) -> bytes:
    if len(events) > PACKED_BYTES_MAX or not events.startswith(_PLAIN):
        return events
    packer = zlib.compressobj(
        _LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY
    )
    return _NUMBER + packer.compress(events) + packer.flush()


def unpacked(stored: bytes) -> bytes:
    """What was packed. Bytes that are no such thing are for whoever decodes them to complain of."""
    if not stored.startswith(_NUMBER):
        return stored
    try:
        return zlib.decompressobj(_WINDOW, _DICTIONARY).decompress(stored[1:])
    except zlib.error:
        return stored
