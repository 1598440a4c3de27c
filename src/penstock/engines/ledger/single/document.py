"""`queue.json`: the whole queue as one readable object.

Each live job stands there with its events, so that nothing else has to be read to tell its story;
beside them a window of the newest events and of the newest commit ids. By those ids a
writer recognises its own commit even after others have replaced it.

Events of no job (pauses, settings, imports, readers) that are older than the window are set aside
until there are enough of them for an object of their own.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from penstock.engines.ledger.names import QUEUE
from penstock.errors import Corrupt
from penstock.kernel.events import Event, JobEvent
from penstock.kernel.job import Job
from penstock.wire.level import UNREADABLE, digest, require_known
from penstock.wire.snapshot import Overview

COMMIT_IDS_MAX: Final = 256
WINDOW_EVENTS_MAX: Final = 1_000
ASIDE_EVENTS_MAX: Final = 100


class JobRecord(Struct, frozen=True):
    job: Job
    events: list[JobEvent]


class Document(Struct, frozen=True, kw_only=True, omit_defaults=True):
    format: int
    commit: int
    commit_id: str
    writer: str
    at: float
    overview: Overview
    commit_ids: list[str]
    """The newest commits, this one last."""
    jobs: list[JobRecord]
    events: list[Event]
    """The window."""
    aside: list[Event] = []
    """Not written while there are none: older code, which lets such events go, reads the rest."""

    def contains(self, commit: int, commit_id: str) -> bool | None:
        """Whether a commit is part of this state; None if it is too long ago to tell."""
        if commit_id in self.commit_ids:
            return True
        return False if commit > self.commit - COMMIT_IDS_MAX else None


class _Level(Struct):
    format: int


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Document)
_DIGEST: Final = b',\n  "digest": "'
_DIGEST_END: Final = b'"\n}\n'
"""The last field: of everything before it, so that no altered state is taken for the queue's."""


def encode_document(document: Document) -> bytes:
    text = msgspec.json.format(_encoder.encode(document), indent=2).removesuffix(b"\n}")
    return b"".join((text, _DIGEST, digest(text).encode(), _DIGEST_END))


def decode_document(data: bytes) -> Document:
    text, _, found = data.rpartition(_DIGEST)
    if found != digest(text).encode() + _DIGEST_END:
        raise Corrupt(QUEUE, "its digest is not that of its content: truncated or altered")
    try:
        require_known(QUEUE, msgspec.json.decode(data, type=_Level).format)
        return _decoder.decode(data)
    except UNREADABLE as error:
        raise Corrupt(QUEUE, f"it can't be read ({error})") from error
