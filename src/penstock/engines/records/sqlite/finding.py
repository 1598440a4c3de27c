"""The reads of a turn, and those for people who look."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import msgspec

from penstock.engines.records.sqlite.database import Database
from penstock.engines.records.sqlite.lanes import PLACES, Lanes, as_json, shelf_at
from penstock.engines.records.sqlite.lists import Lists
from penstock.engines.records.statements import statements, times_of_survey
from penstock.errors import Corrupt
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
_PLAIN: Final = b"{"
"""What a body begins with that is not packed."""

Row: TypeAlias = tuple[int, int, int, str | None, bytes]
"""life, version, place, key, body"""


class Finder:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._lanes = Lanes(database)
        self._lists = Lists(database)
        self.places: dict[int, int] = {}
        """Of the records that were found last, by life."""

    def head(self) -> Head:
        commit, at, clock, completed, charter, charter_version = self._rows("head")[0]
        # Numbers are given under the write lock, so none that is lower can still come.
        return Head(commit, at, completed, charter, charter_version, commit, clock)

    def find(self, need: Need, commit: int) -> Found:
        rows: dict[int, Row] = {}
        for front in need.fronts:
            _add(rows, self._front(front))
        for tenant, ids in _by_tenant(need.ids):
            _add(rows, self._rows("by_id", {"tenant": tenant, "ids": as_json(ids)}))
        for tenant, claims in _by_tenant(need.operations):
            _add(rows, self._rows("by_claim", {"tenant": tenant, "claims": as_json(claims)}))
        for wanted in need.wanted:
            _add(rows, self._candidates(wanted))
        if need.may_be_idle and not rows:
            return NOTHING
        for front in need.riding:
            _add(rows, self._front(front))
        holds = self._holds(rows, need.keys)
        self.places = {life: place for life, _, place, _, _ in rows.values()}
        records = [
            Stored(life, version, shelf_at(place), _unpacked(life, body))
            for life, version, place, _, body in rows.values()
        ]
        departed = [
            one
            for tenant, ids in _by_tenant(need.departed)
            for one in self._remembered("departed", {"tenant": tenant, "ids": as_json(ids)})
        ]
        return Found(commit, records, holds, departed)

    def next_due(self, wanted: Wanted) -> Due:
        lease_end = self._rows("lease_end", {"place": PLACES[Shelf.RUNNING]})[0][0]
        return Due(self._lanes.next_due(wanted), lease_end)

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
        return self._lists.page(asked)

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
        asked = {"place": PLACES[front.shelf], "until": front.until, "most": front.most}
        rows = self._rows("front", asked)
        if len(rows) < front.least:
            rows = self._rows("front", {**asked, "until": float("inf"), "most": front.least})
        return rows

    def _candidates(self, wanted: Wanted) -> list[Row]:
        lanes = self._lanes.first(wanted)
        if not lanes:
            return []
        if len(lanes) == 1:
            _, _, first, place = lanes[0]
            asked = {"place": place, "until": wanted.due_by, "most": wanted.count}
            rows = self._rows("front", asked)
            is_whole = bool(rows) and rows[0][0] == first
        else:
            lives = self._lanes.lives_in(lanes, wanted)
            rows = self._rows("by_life", {"lives": as_json(lives)})
            is_whole = len(rows) == len(lives) and all(row[2] > 0 for row in rows)
        if not is_whole:
            raise Corrupt(self._database.name, "a lane does not begin with the record it names")
        return rows

    def _holds(self, rows: dict[int, Row], keys: Iterable[tuple[str, Scope]]) -> list[KeyHold]:
        """Of these keys and of those of the rows; their holders are added to the rows."""
        found: list[tuple[Any, ...]] = []
        for tenant, (queue, type, key) in keys:
            asked = {"tenant": tenant, "queue": queue, "type": type, "key": key}
            found += self._rows("hold", asked)
        for life, _, _, own_key, _ in rows.values():
            if own_key is not None:
                found += self._rows("hold_of_key_of", {"life": life})
        holds = [
            KeyHold(tenant, (queue, type, key), Hold(id, life, until), lapses_at)
            for tenant, queue, type, key, id, life, until, lapses_at in dict.fromkeys(found)
        ]
        missing = [held.hold.life for held in holds if held.hold.life not in rows]
        if missing:
            _add(rows, self._rows("by_life", {"lives": as_json(missing)}))
        return holds


def _unpacked(life: int, body: bytes) -> bytes:
    return body if body[:1] == _PLAIN else unpack(f"the record of life {life}", body)


def _operations(text: str) -> tuple[str, ...]:
    return msgspec.json.decode(text, type=tuple[str, ...])


def _add(rows: dict[int, Row], more: Iterable[Row]) -> None:
    for row in more:
        rows[row[0]] = row


def _by_tenant(items: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, list[Any]]]:
    groups: defaultdict[str, list[Any]] = defaultdict(list)
    for tenant, item in items:
        groups[tenant].append(item)
    return groups.items()
