"""Layout `tasks` as bytes: a job with its events, who holds a key, and what holds for all jobs.

Each is one JSON object with a digest as its last field, so an altered one is seen, and with the ids
of the latest puts of it, so that whoever was not answered finds out what became of theirs. Payload
and result stand in the events alone; the job beside them is for people and for whoever decides.
"""

from __future__ import annotations

from copy import copy
from typing import Final, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from penstock.errors import Corrupt
from penstock.kernel.departures import Departed
from penstock.kernel.events import (
    Adopted,
    Claimed,
    Completed,
    Enqueued,
    JobEvent,
    QueueEvent,
    Replayed,
)
from penstock.kernel.job import ABSENT, Job, State
from penstock.kernel.stamps import Stamp
from penstock.wire.level import (
    FORMAT_LEVEL,
    UNMOVED_LEVEL,
    UNREADABLE,
    level_of,
    require_known,
    require_signature,
    signed,
)
from penstock.wire.record import Charter

Document = TypeVar("Document")
Opening: TypeAlias = Enqueued | Adopted | Replayed
"""The event by which a job becomes one that holds its key."""


class Task(Struct, frozen=True, omit_defaults=True):
    """Everything about one id of one tenant."""

    tenant: str
    id: str
    nonces: tuple[str, ...] = ()
    """The latest puts of this object, newest last."""
    job: Job | None = None
    """None: the id has had jobs, or nearly had one, and has none now."""
    opening: Opening | None = None
    """Not yet true: it becomes so when the key's object names its position."""
    voided: tuple[int, ...] = ()
    """Positions of openings that never became true, so that a late key can't revive them."""
    departed: Departed | None = None
    """What the last job of the id has left behind; it counts only where there is none now."""
    left: dict[str, dict[State, int]] = {}
    """How many earlier jobs of this id left, by queue and by the state they were in."""
    late: tuple[tuple[int, float], ...] = ()
    """Events that were stored long after their time: up to which position, and when by the
    store's clock."""
    quiet: bool = False
    """The last put brought no event."""
    stamp: Stamp | None = None
    """Its newest time and the clock of whoever wrote it, where they differ (`kernel/stamps`)."""
    early_seconds: float = 0.0
    """How much sooner than at the job's own time its entry is filed, which goes by the clock."""
    sealed: str = ""
    """The move that closed the queue when this was last put by one: whoever does not know of it
    has an old charter."""
    made: bool = False
    """Penstock made the id, and nobody has used it by choice since: it will hardly come again."""
    buried: bool = False
    """Vacuum has emptied it and may delete it: whoever wants to use it has to spare it first."""
    spared: bool = False
    """It was buried, and then somebody used its id again."""
    events: tuple[JobEvent, ...] = ()
    """Of all jobs the id has had, oldest first."""


class KeyObject(Struct, frozen=True, omit_defaults=True):
    """Who has a key, or had it last: it is held while that job is live, and until a time."""

    tenant: str
    queue: str
    type: str
    key: str
    nonces: tuple[str, ...] = ()
    id: str = ""
    life: int = 0
    opened: int = 0
    """The position of the opening that took it."""
    until: float | None = None


class Leaving(Struct, frozen=True, omit_defaults=True):
    """A buried task that is being deleted, with what has to stay counted of it."""

    tenant: str
    left: dict[str, dict[State, int]] = {}


class Deletion(Struct, frozen=True):
    """Buried tasks that a vacuum is deleting: it says so before it looks at them a last time."""

    id: str
    tasks: dict[str, Leaving]
    """By the key of their objects."""


class CharterObject(Struct, frozen=True, omit_defaults=True):
    """What holds for the whole queue, and the latest events about that."""

    nonces: tuple[str, ...] = ()
    charter: Charter = Charter()
    events: tuple[QueueEvent, ...] = ()
    forgotten: int = 0
    """No event up to this position can be relied on to be there: vacuum was here."""
    left: dict[str, dict[str, dict[State, int]]] = {}
    """Jobs whose objects are gone, by tenant, queue and state."""
    stamp: Stamp | None = None
    """The time of the queue as somebody noted it who wrote, some minutes ago or more."""
    set_backs: tuple[Stamp, ...] = ()
    """The latest times that somebody found ahead of the clock, and what that was."""
    deletion: Deletion | None = None
    """What is being deleted: not in `left` yet, and not in their tasks once these are gone."""
    sealed: str = ""
    """The last move for which every task was sealed; what has no seal came too late for it."""


class _Level(Struct, frozen=True):
    format: int


_encoder: Final = msgspec.json.Encoder()
_level_decoder: Final = msgspec.json.Decoder(_Level)
_task_decoder: Final = msgspec.json.Decoder(Task)
_key_decoder: Final = msgspec.json.Decoder(KeyObject)
_charter_decoder: Final = msgspec.json.Decoder(CharterObject)
_PREFIX: Final = b'{"format":%d,'


def encode_task(task: Task) -> bytes:
    job = task.job
    if job is not None:
        job = copy(job)
        job.payload = job.result = ABSENT
    return _encoded(msgspec.structs.replace(task, job=job), _level_of(task))


def decode_task(key: str, data: bytes) -> Task:
    task = _decoded(key, data, _task_decoder, "task")
    if task.job is not None:
        _fill(task.job, task.events)
    return task


def encode_key(held: KeyObject) -> bytes:
    return _encoded(held, UNMOVED_LEVEL)


def decode_key(key: str, data: bytes) -> KeyObject:
    return _decoded(key, data, _key_decoder, "key's holder")


def encode_charter_object(charter: CharterObject) -> bytes:
    return _encoded(charter, level_of(charter.charter.moves))


def decode_charter_object(key: str, data: bytes) -> CharterObject:
    return _decoded(key, data, _charter_decoder, "charter")


def payload_of(job: Job, events: tuple[JobEvent, ...]) -> Enqueued | None:
    """The event that brought its payload."""
    for event in events:
        if isinstance(event, Enqueued) and event.life == job.life:
            return event
    return None


def _level_of(task: Task) -> int:
    """No higher than it has to be: one that came after the move has only its fences from that."""
    is_moved = task.sealed or any(isinstance(e, Claimed) and e.fence for e in task.events)
    return FORMAT_LEVEL if is_moved else UNMOVED_LEVEL


def _fill(job: Job, events: tuple[JobEvent, ...]) -> None:
    if job.state is State.COMPLETED:
        for event in reversed(events):
            if isinstance(event, Completed | Adopted) and event.life == job.life:
                job.result = event.result
                return
    elif (enqueued := payload_of(job, events)) is not None:
        job.payload = enqueued.payload


def _encoded(document: Struct, level: int) -> bytes:
    return signed(_PREFIX % level + _encoder.encode(document)[1:])


def _decoded(key: str, data: bytes, decoder: msgspec.json.Decoder[Document], what: str) -> Document:
    require_signature(key, data)
    try:
        require_known(key, _level_decoder.decode(data).format)
        return decoder.decode(data)
    except UNREADABLE as error:
        raise Corrupt(key, f"it is no {what} ({error})") from error
