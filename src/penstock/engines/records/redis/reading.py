"""Reads for people who look, and the vacuum."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf
from typing import Any, Final

import msgspec

from penstock.engines.records.redis.connection import Connection
from penstock.engines.records.redis.finding import RESERVED_MS, wake_fields, wanted_fields
from penstock.engines.records.redis.keys import Keys, record_name
from penstock.engines.records.redis.packing import (
    calls_in,
    entries_in,
    events_in,
    hold_in,
    life_digits,
    opened,
    shelf_letters,
    split,
)
from penstock.kernel.job import State
from penstock.ports.counters import Count, Survey, Waiting
from penstock.ports.listing import LOOKED_AT_MAX, Page, PageAsked
from penstock.ports.records import Departure, Due, KeyHold, Remembered, Wanted
from penstock.ports.wakes import Waiter, Wake

LARGE_SURVEY_BYTES: Final = 65_536
RECORDS_PER_READ: Final = 1_000
BUCKETS_PER_VACUUM: Final = 30
"""Of commits, and as many departures: what one step of a vacuum takes away."""

_encode: Final = msgspec.msgpack.Encoder().encode


class Reader:
    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys

    async def listing(self, asked: PageAsked) -> Page:
        given: dict[str, Any] = {
            "tenant": asked.tenant,
            "shelves": list(asked.shelves),
            "letters": shelf_letters(asked.shelves),
            "after": life_digits(asked.after),
            "last": life_digits(asked.until),
            "count": asked.count,
            "few": LOOKED_AT_MAX,
            "looks_at": LOOKED_AT_MAX,
        }
        if asked.queue is not None:
            given["queues"] = {asked.queue: True}
        if asked.type is not None:
            given["types"] = {asked.type: True}
        reached, *values = await self._connection.run("listing", _encode(given))
        bodies = [stored.body for stored, _ in opened(*values)]
        return Page(bodies, int(reached) if reached else None)

    async def survey(self, tenant: str, at: float) -> Survey:
        commit, *parts = await self._connection.run("survey", tenant, repr(at))
        if sum(map(len, parts)) < LARGE_SURVEY_BYTES:
            return _survey_in(commit, *parts)
        # So that nobody else's calls wait while the numbers of many queues are added up.
        return await asyncio.to_thread(_survey_in, commit, *parts)

    async def tenants(self) -> list[str]:
        found: list[bytes] = await self._connection.ask("SMEMBERS", self._keys.tenants)
        return sorted(name.decode() for name in found)

    async def lapsing(self, tenant: str, after: float) -> list[KeyHold]:
        name_lengths, names, lengths, values = await self._connection.run(
            "lapsing", tenant, repr(after)
        )
        held = zip(split(name_lengths, names), split(lengths, values), strict=True)
        holds = [hold_in(name.decode(), value.decode()) for name, value in held]
        return sorted(holds, key=lambda one: one.scope)

    async def next_due(self, wanted: Wanted, waiter: Waiter | None, handle: str) -> Due:
        asked = wanted_fields(wanted)
        asked["reserved_ms"] = RESERVED_MS
        if waiter is not None:
            asked["waiter"] = f"{handle}/{waiter.name}"
            asked["stays"] = waiter.stays
        pending, lease_end, held_ms, ahead = await self._connection.run("due", _encode(asked))
        return Due(
            float(pending) if pending else None,
            float(lease_end) if lease_end else None,
            None if held_ms == b"" else held_ms / 1_000,
            ahead,
        )

    async def wake(self, wakes: Sequence[Wake]) -> None:
        await self._connection.run("wake", _encode([wake_fields(one) for one in wakes]))

    async def departure(self, tenant: str, id: str, life: int | None) -> Departure | None:
        key = self._keys.departure(record_name(tenant, id))
        if life is None:
            lives = await self._connection.ask("HKEYS", key)
            if not lives:
                return None
            life = max(map(int, lives))
        value = await self._connection.ask("HGET", key, str(life))
        return None if value is None else msgspec.json.decode(value, type=Departure)

    async def remembered(self, tenant: str, after: float) -> list[Remembered]:
        members = await self._connection.ask(
            "ZRANGEBYSCORE", self._keys.forgettable, f"({after!r}", "+inf"
        )
        names = [name for name in map(bytes.decode, members) if name.startswith(f"{tenant}/")]
        found: list[Remembered] = []
        for first in range(0, len(names), RECORDS_PER_READ):
            page = names[first : first + RECORDS_PER_READ]
            values = await self._connection.ask("MGET", *map(self._keys.calls, page))
            each = zip(page, values, strict=True)
            found += [calls_in(name, value) for name, value in each if value is not None]
        return sorted(found, key=lambda one: one.id)

    async def commits(self, after: int, count: int) -> list[tuple[int, bytes]]:
        numbers, lengths, joined = await self._connection.run("commits", after, count)
        found = map(int, numbers.split(b",")) if numbers else ()
        return [
            (number, events_in(value))
            for number, value in zip(found, split(lengths, joined), strict=True)
        ]

    async def commit(self, number: int) -> bytes | None:
        value = await self._connection.run("commit", number)
        return None if value is None else events_in(value)

    async def first_commit(self) -> int:
        return int(await self._connection.ask("HGET", self._keys.head, "first_commit") or 1)

    async def sides(self) -> dict[str, float | None]:
        found = await self._connection.ask("HGETALL", self._keys.sides)
        return {
            key.decode(): float(at) if at else None
            for key, at in zip(found[::2], found[1::2], strict=True)
        }

    async def vacuum(self, written_before: float, below: int, released_before: float) -> int:
        dropped, is_more = 0, True
        while is_more:
            gone, is_more = await self._connection.run(
                "vacuum", repr(written_before), below, BUCKETS_PER_VACUUM
            )
            dropped += gone
        await self._connection.run("forget_sides", repr(released_before))
        return dropped


def _survey_in(commit: int, counted: bytes, lanes: bytes, waits: bytes) -> Survey:
    counts: dict[tuple[str, State], Count] = {}
    pending: dict[tuple[str, str], int] = {}
    for field, value in _pairs(counted):
        queue, type, name, kind = field.split("/")
        state, number = State(name), int(value)
        if state is State.PENDING and kind == "now":
            pending[queue, type] = number
        before = counts.get((queue, state)) or Count(queue, state, 0, 0)
        now, left = (number, 0) if kind == "now" else (0, number)
        counts[queue, state] = Count(queue, state, before.now + now, before.left + left)
    oldest: dict[tuple[str, str], float] = {}
    for at, lane in entries_in(lanes):
        queue, type, _ = lane.split("/")
        oldest[queue, type] = min(at, oldest.get((queue, type), inf))
    scheduled: Counter[tuple[str, str]] = Counter()
    for field, value in _pairs(waits):
        queue, type, _ = field.split("/")
        scheduled[queue, type] += int(value)
    waiting = [
        Waiting(*place, pending.get(place, 0), at, scheduled[place]) for place, at in oldest.items()
    ]
    return Survey(commit, list(counts.values()), waiting)


def _pairs(strung: bytes) -> Iterator[tuple[str, str]]:
    """The fields and values of a hash."""
    parts = iter(strung.decode().split("\0") if strung else ())
    return zip(parts, parts, strict=True)
