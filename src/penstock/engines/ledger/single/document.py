"""`queue.json`: the whole queue as one readable object, a field or a job a line.

Each live job stands there with its events, so that nothing else has to be read to tell its story;
beside them a window of the newest events, of which those of live jobs are not told again, and of
the newest commit ids. By those ids a writer recognises its own commit even after others have
replaced it.

Events of no job (pauses, settings, imports, readers) that are older than the window are set aside
until there are enough of them for an object of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Raw, Struct

from penstock.engines.ledger.names import QUEUE
from penstock.errors import Corrupt
from penstock.kernel.events import Event, JobEvent
from penstock.kernel.job import Job
from penstock.wire.level import UNREADABLE, digest, require_known
from penstock.wire.snapshot import Overview
from penstock.wire.story import decode_story, encode_story

COMMIT_IDS_MAX: Final = 256
WINDOW_EVENTS_MAX: Final = 1_000
ASIDE_EVENTS_MAX: Final = 100


class JobRecord(Struct, frozen=True):
    job: Job
    events: list[JobEvent]
    line: bytes
    """Both as they are stored: written once for as long as nothing happens to the job."""


class Document(Struct, frozen=True, kw_only=True):
    format: int
    commit: int
    commit_id: str
    writer: str
    at: float
    clock: float | None = None
    """What the writer took for the time, where `at` is ahead of it."""
    overview: Overview
    commit_ids: list[str]
    """The newest commits, this one last."""
    jobs: list[JobRecord]
    events: list[Event]
    """The window."""
    aside: list[Event] = []

    def contains(self, commit: int, commit_id: str) -> bool | None:
        """Whether a commit is part of this state; None if it is too long ago to tell."""
        if commit_id in self.commit_ids:
            return True
        return False if commit > self.commit - COMMIT_IDS_MAX else None


class _Stored(Struct, frozen=True, kw_only=True):
    """What can be read from the object at once."""

    format: int
    commit: int
    commit_id: str
    writer: str
    at: float
    clock: float | None
    overview: Overview
    commit_ids: list[str]
    window: int
    """The position at which the window begins."""
    aside: list[Event]
    events: list[Event]
    """Those in the window that no job tells."""
    jobs: list[Raw]


class _Level(Struct):
    format: int


_encode: Final = msgspec.json.Encoder().encode
_decoder: Final = msgspec.json.Decoder(_Stored)
_DIGEST: Final = b',\n"digest": "'
_DIGEST_END: Final = b'"\n}\n'
"""The last field: of everything before it, so that no altered state is taken for the queue's."""


def record_of(job: Job, events: list[JobEvent]) -> JobRecord:
    return JobRecord(job, events, encode_story(job, events))


def encode_document(document: Document) -> bytes:
    told = {event.position for record in document.jobs for event in record.events}
    untold = [event for event in document.events if event.position not in told]
    fields = {
        "format": _encode(document.format),
        "commit": _encode(document.commit),
        "commit_id": _encode(document.commit_id),
        "writer": _encode(document.writer),
        "at": _encode(document.at),
        "clock": _encode(document.clock),
        "overview": _encode(document.overview),
        "commit_ids": _encode(document.commit_ids),
        "window": _encode(document.events[0].position if document.events else 0),
        "aside": _lines(map(_encode, document.aside)),
        "events": _lines(map(_encode, untold)),
        "jobs": _lines(record.line for record in document.jobs),
    }
    text = b"{\n" + b",\n".join(b'"%b": %b' % (name.encode(), fields[name]) for name in fields)
    return b"".join((text, _DIGEST, digest(text).encode(), _DIGEST_END))


def decode_document(data: bytes) -> Document:
    text, _, found = data.rpartition(_DIGEST)
    if found != digest(text).encode() + _DIGEST_END:
        raise Corrupt(QUEUE, "its digest is not that of its content: truncated or altered")
    try:
        require_known(QUEUE, msgspec.json.decode(data, type=_Level).format)
        stored = _decoder.decode(data)
        jobs = [JobRecord(*decode_story(line), bytes(line)) for line in stored.jobs]
    except (*UNREADABLE, KeyError, StopIteration) as error:
        raise Corrupt(QUEUE, f"it can't be read ({error})") from error
    told = (event for record in jobs for event in record.events)
    window = [event for event in (*stored.events, *told) if event.position >= stored.window]
    return Document(
        format=stored.format,
        commit=stored.commit,
        commit_id=stored.commit_id,
        writer=stored.writer,
        at=stored.at,
        clock=stored.clock,
        overview=stored.overview,
        commit_ids=stored.commit_ids,
        jobs=jobs,
        events=sorted(window, key=lambda event: event.position),
        aside=stored.aside,
    )


def _lines(values: Iterable[bytes]) -> bytes:
    listed = b",\n".join(values)
    return b"[\n%b\n]" % listed if listed else b"[]"
