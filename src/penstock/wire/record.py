"""A job as one record, and what all jobs of a queue have in common, as bytes.

Both are JSON objects with a digest as their last field, so an altered one is seen. Which level
the bytes have is said once, by the charter.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from penstock.errors import Corrupt
from penstock.kernel.job import Job
from penstock.kernel.moves import Move
from penstock.kernel.settings import DEFAULT_SETTINGS, Settings
from penstock.wire.level import (
    UNREADABLE,
    level_of,
    require_known,
    require_signature,
    signed,
)


class Charter(Struct, frozen=True, omit_defaults=True):
    """What holds for the whole queue: its settings, pauses and registered readers."""

    settings: Settings = DEFAULT_SETTINGS
    paused: dict[str, list[str]] = {}
    """Queues that are paused, by tenant."""
    consumers: dict[str, tuple[int, float]] = {}
    swept_before: float = 0.0
    moves: tuple[Move, ...] = ()


class _Levelled(Struct, frozen=True):
    format: int
    charter: Charter


class _Level(Struct, frozen=True):
    format: int


_encoder: Final = msgspec.json.Encoder()
_job_decoder: Final = msgspec.json.Decoder(Job)
_charter_decoder: Final = msgspec.json.Decoder(_Levelled)
_level_decoder: Final = msgspec.json.Decoder(_Level)


def encode_job(job: Job) -> bytes:
    return signed(_encoder.encode(job))


def decode_job(key: str, data: bytes) -> Job:
    require_signature(key, data)
    try:
        return _job_decoder.decode(data)
    except UNREADABLE as error:
        raise Corrupt(key, f"it is no job ({error})") from error


def encode_charter(charter: Charter) -> bytes:
    return signed(_encoder.encode(_Levelled(level_of(charter.moves), charter)))


def decode_charter(key: str, data: bytes) -> Charter:
    require_signature(key, data)
    try:
        # A newer one may have other fields, but it has this one.
        require_known(key, _level_decoder.decode(data).format)
        return _charter_decoder.decode(data).charter
    except UNREADABLE as error:
        raise Corrupt(key, f"it is no charter ({error})") from error
