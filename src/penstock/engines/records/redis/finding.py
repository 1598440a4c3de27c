"""The first half of a turn: what is asked for goes out, what was found comes back."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from penstock.engines.records.redis.keys import hold_name, record_name
from penstock.engines.records.redis.packing import (
    Located,
    calls_in,
    charter_in,
    hold_in,
    opened,
    split,
)
from penstock.ports.records import (
    NOTHING,
    RESERVATION_SECONDS_MAX,
    Found,
    Front,
    Head,
    KeyHold,
    Need,
    Stored,
    Wanted,
)
from penstock.ports.wakes import Wake

TURN_SECONDS: Final = 5.0
TURN_SECONDS_PER_RECORD: Final = 0.001
"""How long a turn may take before its number is given up, and more for one with much to decide."""

RESERVED_MS: Final = round(RESERVATION_SECONDS_MAX * 1_000)

_encode: Final = msgspec.msgpack.Encoder().encode


class Finding(Struct, frozen=True):
    """What the server answered to one turn."""

    head: Head
    found: Found
    turn: str
    """How the server calls it while it is under way; empty if it only looks."""
    token: str
    located: dict[int, Located]
    """Where the found records are indexed, by life."""
    assumed: Mapping[tuple[str, str], tuple[Stored, Located]]
    """What was not looked at, since it was known, by tenant and id: whoever writes compares it."""


def asked(need: Need, token: str, known: Container[tuple[str, str]], *, only_looks: bool) -> bytes:
    records = len(need.ids) + sum(wanted.count for wanted in need.wanted)
    turn_seconds = TURN_SECONDS + TURN_SECONDS_PER_RECORD * records
    return _encode(
        {
            "fronts": [_front_fields(one) for one in need.fronts],
            "ids": [f"{one[0]}/{one[1]}" for one in need.ids if one not in known],
            "claims": [f"{tenant}/{claim}" for tenant, claim in need.operations],
            "wanted": [wanted_fields(one) for one in need.wanted],
            "keys": [hold_name(tenant, scope) for tenant, scope in need.keys],
            "departed": [record_name(tenant, id) for tenant, id in need.departed],
            "riding": [_front_fields(one) for one in need.riding],
            "may_be_idle": need.may_be_idle,
            "only_looks": only_looks,
            "token": token,
            "turn_ms": round(turn_seconds * 1_000),
            "reserved_ms": RESERVED_MS,
        }
    )  # fmt: skip


def _front_fields(front: Front) -> dict[str, Any]:
    return {
        "shelf": front.shelf.value, "until": repr(front.until), "least": front.least,
        "most": front.most,
    }  # fmt: skip


def wanted_fields(wanted: Wanted) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "tenant": wanted.tenant,
        "paused": dict.fromkeys(wanted.paused, True),
        "due_by": repr(wanted.due_by),
        "count": wanted.count,
    }
    # Left out where all are wanted: Lua's tables have no null.
    if wanted.queues is not None:
        fields["queues"] = dict.fromkeys(wanted.queues, True)
    if wanted.types is not None:
        fields["types"] = dict.fromkeys(wanted.types, True)
    return fields


def wake_fields(wake: Wake) -> list[str | int]:
    return [wake.tenant, wake.queue, wake.type, -1 if wake.jobs is None else wake.jobs]


def head_in(answer: Sequence[Any]) -> Head:
    commit, at, completed, charter, readable, clock = answer
    body, version = charter_in(charter)
    return Head(commit, float(at), completed, body, version, readable, float(clock))


def finding_in(
    answer: Sequence[Any],
    token: str,
    need: Need,
    known: Mapping[tuple[str, str], tuple[Stored, Located]],
) -> Finding:
    (
        head, number, turn, record_lengths, records, name_lengths, names, hold_lengths, holds,
        left_lengths, left,
    ) = answer  # fmt: skip
    stored: list[Stored] = []
    located: dict[int, Located] = {}
    for record, at in opened(record_lengths, records):
        stored.append(record)
        located[record.life] = at
    for record, at in known.values():
        # One may have come with others that were looked for; that is what is there.
        if record.life not in located:
            stored.append(record)
            located[record.life] = at
    held: list[KeyHold] = [
        hold_in(name.decode(), value.decode())
        for name, value in zip(split(name_lengths, names), split(hold_lengths, holds), strict=True)
    ]
    asked_for = (record_name(tenant, id) for tenant, id in need.departed)
    departed = [
        calls_in(name, value)
        for name, value in zip(asked_for, split(left_lengths, left), strict=True)
        if value
    ]
    return Finding(
        head_in(head),
        Found(number, stored, held, departed) if number else NOTHING,
        turn.decode(),
        token,
        located,
        known,
    )
