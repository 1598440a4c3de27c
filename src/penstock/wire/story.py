"""A job as one line: its state, and the events that led there, each told once.

    {"running":[{"enqueued":1000000,"at":7.0,"type":"send","id":"a"},{"claimed":2000000,…}]}

An event begins with its name and position, and says beyond its time only what can't be known from
the job before it. The job is what its events make of it; what they do not tell (a result that was
let go, the calls that began earlier lives) stands behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, get_args

import msgspec
from msgspec import Raw
from msgspec.structs import fields

from penstock.kernel.events import Claimed, Enqueued, JobEvent
from penstock.kernel.job import ABSENT, DEFAULT_QUEUE, DEFAULT_TENANT, Job
from penstock.kernel.transitions import IllegalTransition, apply, born

USUAL_LEASE_SECONDS: Final = 30.0
"""A lease of this length need not be told. Part of the format: stored queues go by it."""

_WITHOUT: Final = "without"
"""Names the values that the events tell and the job no longer has."""

_encode: Final = msgspec.json.Encoder().encode
_parts: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_list_of_parts: Final = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_names: Final = msgspec.json.Decoder(tuple[str, ...]).decode
_position: Final = msgspec.json.Decoder(int).decode
_time: Final = msgspec.json.Decoder(float).decode
_event: Final = msgspec.json.Decoder(JobEvent).decode
_job: Final = msgspec.json.Decoder(Job).decode

_KINDS: Final[dict[str, type[JobEvent]]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(JobEvent)
}
_SAID: Final = {
    kind: [(each.name, each.default) for each in fields(kind)[2:]] for kind in _KINDS.values()
}
"""What each kind says beside position and time, and what it says by default."""
_VALUES: Final = {"payload", "codec", "result", "result_codec", "result_key"}
_KEPT_BY_JOBS: Final = {*Job.__struct_fields__} - _VALUES
"""What later events say of a job as it was before; a value is always said with its codec."""
_KEPT: Final = {
    kind: [name for name, _ in said if name in _KEPT_BY_JOBS] for kind, said in _SAID.items()
}


def encode_story(job: Job, events: Sequence[JobEvent]) -> bytes:
    told: list[dict[str, Any]] = []
    made: Job | None = None
    for event in events:
        told.append(_told(event, made))
        made = _after(made, event)
    line: dict[str, Any] = {job.state.value: told}
    without = []
    for name in Job.__struct_fields__:
        value = getattr(job, name)
        if name == "state" or (made is not None and value == getattr(made, name)):
            continue
        if value != ABSENT:
            line[name] = value
        elif made is not None:
            without.append(name)
    if without:
        line[_WITHOUT] = without
    return _encode(line)


def decode_story(line: bytes | Raw) -> tuple[Job, list[JobEvent]]:
    said = _parts(line)
    state = next(iter(said))
    events: list[JobEvent] = []
    made: Job | None = None
    for told in _list_of_parts(said.pop(state)):
        event = _heard(told, made)
        events.append(event)
        made = _after(made, event)
    if made is not None and made.state == state and not said:
        return made, events
    known = {} if made is None else _parts(_encode(made))
    for name in _names(said.pop(_WITHOUT, b"[]")):
        del known[name]
    return _job(_encode({**known, **said, "state": state})), events


def _told(event: JobEvent, before: Job | None) -> dict[str, Any]:
    kind = event.__class__
    known = _known(kind, before, event.position, event.at)
    told: dict[str, Any] = {event.event: event.position, "at": event.at}
    for name, default in _SAID[kind]:
        value = getattr(event, name)
        if value != known.get(name, default):
            told[name] = value
    return told


def _heard(told: dict[str, Raw], before: Job | None) -> JobEvent:
    name = next(iter(told))
    position = _position(told.pop(name))
    known = _known(_KINDS[name], before, position, _time(told["at"]))
    event: JobEvent = _event(_encode({**known, **told, "event": name, "position": position}))
    return event


def _known(kind: type[JobEvent], before: Job | None, position: int, at: float) -> dict[str, Any]:
    """What an event of this kind need not say after the job that it happened to."""
    if before is None:
        return {"tenant": DEFAULT_TENANT, "queue": DEFAULT_QUEUE, "life": position, "run_at": at}
    known = {name: getattr(before, name) for name in _KEPT[kind]}
    known["due_at"] = before.run_at
    if kind is Claimed:
        known["attempt"] = before.attempt + 1
        known["lease_until"] = at + USUAL_LEASE_SECONDS
    return known


def _after(before: Job | None, event: JobEvent) -> Job | None:
    """None: nothing is known. Only where a queue was altered do events not follow each other."""
    try:
        if before is not None:
            return apply(before, event)
        return born(event) if isinstance(event, Enqueued) else None
    except IllegalTransition:
        return None
