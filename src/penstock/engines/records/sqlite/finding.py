"""The reads of a turn, and those for people who look."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import groupby, islice
from typing import Any, Final, TypeAlias

import msgspec

from penstock.engines.records.sqlite.database import Database
from penstock.engines.records.statements import page_of, statements, times_of_survey
from penstock.kernel.departures import Departed
from penstock.kernel.job import State
from penstock.kernel.tenancy import Hold, Scope
from penstock.ports.counters import Count, Survey, Waiting
from penstock.ports.listing import Page, PageAsked
from penstock.ports.records import (
    NOTHING,
    Departure,
    Due,
    Found,
    Front,
    Head,
    KeyHold,
    Need,
    Remembered,
    Shelf,
    Stored,
    Wanted,
)
from penstock.wire.packed import unpack

_SQL: Final = statements(__package__, "finding.sql")
_json: Final = msgspec.json.Encoder()

Row: TypeAlias = tuple[Any, ...]
"""life, version, shelf, tenant, queue, type, key, body"""
Lane: TypeAlias = tuple[str | None, str, int, float]
"""queue (None: all of them), type, priority, and when its first record is due"""

_BEFORE_ALL: Final = -(2**63)
"""A priority that nobody can have."""


class Finder:
    def __init__(self, database: Database) -> None:
        self._database = database

    def head(self) -> Head:
        commit, at, clock, completed, charter, charter_version = self._rows("head")[0]
        # Numbers are given under the write lock, so none that is lower can still come.
        return Head(commit, at, completed, charter, charter_version, commit, clock)

    def find(self, need: Need, commit: int) -> Found:
        rows: dict[int, Row] = {}
        for front in need.fronts:
            _add(rows, self._front(front))
        for tenant, ids in _by_tenant(need.ids):
            _add(rows, self._rows("by_id", {"tenant": tenant, "ids": _encode(ids)}))
        for tenant, claims in _by_tenant(need.operations):
            _add(rows, self._rows("by_claim", {"tenant": tenant, "claims": _encode(claims)}))
        for wanted in need.wanted:
            lives = [life for _, life in self._candidates(wanted)]
            _add(rows, self._rows("by_life", {"lives": _encode(lives)}))
        if need.may_be_idle and not rows:
            return NOTHING
        for front in need.riding:
            _add(rows, self._front(front))
        holds = self._holds(rows, need.keys)
        records = [
            Stored(row[0], row[1], row[2], unpack(f"the record of life {row[0]}", row[7]))
            for row in rows.values()
        ]
        departed = [
            one
            for tenant, ids in _by_tenant(need.departed)
            for one in self._remembered("departed", {"tenant": tenant, "ids": _encode(ids)})
        ]
        return Found(commit, records, holds, departed)

    def next_due(self, wanted: Wanted) -> Due:
        due = [lane[3] for lane in self._lanes(wanted)]
        return Due(min(due, default=None), self._rows("lease_end")[0][0])

    def survey(self, tenant: str, at: float) -> Survey:
        counts = [
            Count(queue, State(state), now, gone)
            for queue, state, now, gone in self._rows("counts", {"tenant": tenant})
        ]
        head = self.head()
        asked = {"tenant": tenant, **times_of_survey(at, head.at)}
        waiting = [Waiting(*row) for row in self._rows("waiting", asked)]
        [(size,)] = self._rows("size")
        return Survey(head.commit, counts, waiting, size)

    def listing(self, asked: PageAsked) -> Page:
        given = {
            "tenant": asked.tenant,
            "queue": asked.queue,
            "type": asked.type,
            "after": asked.after,
            "until": asked.until,
            "most": asked.looks_at,
        }
        return page_of(
            asked,
            [
                self._rows("listing_of_running", given)
                if shelf == Shelf.RUNNING
                else self._rows("listing", {**given, "shelf": shelf})
                for shelf in asked.shelves
            ],
        )

    def tenants(self) -> list[str]:
        return [row[0] for row in self._rows("tenants")]

    def lapsing(self, tenant: str, after: float) -> list[KeyHold]:
        return [
            KeyHold(tenant, (queue, type, key), Hold(id, life, until), lapses_at)
            for queue, type, key, id, life, until, lapses_at in self._rows(
                "lapsing", {"tenant": tenant, "after": after}
            )
        ]

    def remembered(self, tenant: str, after: float) -> list[Remembered]:
        return self._remembered("remembered", {"tenant": tenant, "after": after})

    def departure(self, tenant: str, id: str, life: int | None) -> Departure | None:
        rows = self._rows("departure", {"tenant": tenant, "id": id, "life": life})
        if not rows:
            return None
        life, trail = rows[0]
        return Departure(tenant, id, life, msgspec.json.decode(trail, type=tuple[int, ...]))

    def commits(self, after: int, count: int) -> list[tuple[int, bytes]]:
        rows = self._rows("commits", {"after": after, "count": count})
        return [(number, unpack(f"commit {number}", events)) for number, events in rows]

    def commit(self, number: int) -> bytes | None:
        rows = self._rows("commit", {"number": number})
        return unpack(f"commit {number}", rows[0][0]) if rows else None

    def first_commit(self) -> int:
        return int(self._rows("first_commit")[0][0])

    def sides(self) -> dict[str, float | None]:
        return dict(self._rows("sides"))

    def _rows(self, name: str, parameters: dict[str, Any] | None = None) -> list[Any]:
        return self._database.execute(_SQL[name], parameters or {}).fetchall()

    def _remembered(self, name: str, asked: dict[str, Any]) -> list[Remembered]:
        return [
            Remembered(asked["tenant"], id, Departed(until, _operations(operations)))
            for id, until, operations in self._rows(name, asked)
        ]

    def _front(self, front: Front) -> list[Row]:
        asked = {"shelf": front.shelf.value, "until": front.until, "most": front.most}
        rows = self._rows("front", asked)
        if len(rows) < front.least:
            rows = self._rows("front", {**asked, "until": float("inf"), "most": front.least})
        return rows

    def _lanes(self, wanted: Wanted) -> Iterator[Lane]:
        """Where to look for what is wanted: a step or two in an index for each."""
        if wanted.queues is None and wanted.paused:
            # Only lane by lane those of the paused queues are not in the way.
            for lane in self._rows("lanes", {"tenant": wanted.tenant}):
                queue, type = lane[:2]
                if queue not in wanted.paused and (wanted.types is None or type in wanted.types):
                    yield lane
            return
        queues = (None,) if wanted.queues is None else dict.fromkeys(wanted.queues)
        for queue in queues:
            if queue not in wanted.paused:
                for type in self._types(wanted, queue):
                    yield from self._lanes_of(wanted.tenant, queue, type)

    def _types(self, wanted: Wanted, queue: str | None) -> Iterator[str]:
        if wanted.types is not None:
            yield from dict.fromkeys(wanted.types)
            return
        name = "next_type" if queue is None else "next_type_of_queue"
        asked = {"tenant": wanted.tenant, "queue": queue, "type": ""}
        while rows := self._rows(name, asked):
            yield rows[0][0]
            asked["type"] = rows[0][0]

    def _lanes_of(self, tenant: str, queue: str | None, type: str) -> Iterator[Lane]:
        name = "next_lane_of_type" if queue is None else "next_lane"
        asked = {"tenant": tenant, "queue": queue, "type": type, "priority": _BEFORE_ALL}
        while rows := self._rows(name, asked):
            [(priority, due_at)] = rows
            yield queue, type, priority, due_at
            asked["priority"] = priority

    def _candidates(self, wanted: Wanted) -> Iterator[tuple[float, int]]:
        """The first ones in claim order: priority by priority, the lanes of each merged."""
        left = wanted.count
        lanes = sorted(self._lanes(wanted), key=lambda lane: lane[2])
        for _, of_priority in groupby(lanes, key=lambda lane: lane[2]):
            due = [lane for lane in of_priority if lane[3] <= wanted.due_by]
            found = islice(merge(*(self._first(wanted, lane, left) for lane in due)), left)
            for candidate in found:
                yield candidate
                left -= 1
            if left == 0:
                return

    def _first(self, wanted: Wanted, lane: Lane, count: int) -> list[tuple[float, int]]:
        return self._rows(
            "candidates_of_type" if lane[0] is None else "candidates",
            {**_of_lane(wanted.tenant, lane), "due_by": wanted.due_by, "count": count},
        )

    def _holds(self, rows: dict[int, Row], keys: Iterable[tuple[str, Scope]]) -> list[KeyHold]:
        """Of these keys and of those of the rows; their holders are added to the rows."""
        scopes = dict.fromkeys(keys)
        for _, _, _, tenant, queue, type, key, _ in rows.values():
            if key is not None:
                scopes[tenant, (queue, type, key)] = None
        holds: list[KeyHold] = []
        for tenant, scope in scopes:
            queue, type, key = scope
            asked = {"tenant": tenant, "queue": queue, "type": type, "key": key}
            for id, life, until, lapses_at in self._rows("hold", asked):
                holds.append(KeyHold(tenant, scope, Hold(id, life, until), lapses_at))
        missing = [held.hold.life for held in holds if held.hold.life not in rows]
        if missing:
            _add(rows, self._rows("by_life", {"lives": _encode(missing)}))
        return holds


def _operations(text: str) -> tuple[str, ...]:
    return msgspec.json.decode(text, type=tuple[str, ...])


def _of_lane(tenant: str, lane: Lane) -> dict[str, Any]:
    queue, type, priority, _ = lane
    return {"tenant": tenant, "queue": queue, "type": type, "priority": priority}


def _add(rows: dict[int, Row], more: Iterable[Row]) -> None:
    for row in more:
        rows[row[0]] = row


def _by_tenant(items: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, list[Any]]]:
    groups: defaultdict[str, list[Any]] = defaultdict(list)
    for tenant, item in items:
        groups[tenant].append(item)
    return groups.items()


def _encode(values: list[Any]) -> str:
    return _json.encode(values).decode()
