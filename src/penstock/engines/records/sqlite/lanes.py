"""Lanes: the pending records of one queue, type and priority, in the order in which they are due.

A record that is pending is in one index, by the number of its lane. The table of lanes says which
record is first in each. Whatever a claim names, the lanes that it may take from are read from there
in the order of their first records. The first so many jobs are in the first so many lanes, so that
a claim costs what it takes, however many lanes there are.

A turn brings up to date the lanes that it has changed: a seek and a row for each, whatever the
number of its jobs. A lane without records is not there: a priority used once leaves nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Any, Final, TypeAlias

import msgspec

from penstock.engines.records.sqlite.database import Database
from penstock.engines.records.statements import statements
from penstock.ports.records import Record, Shelf, Wanted

_SQL: Final = statements(__package__, "lanes.sql")
_json: Final = msgspec.json.Encoder()

PLACES: Final = {Shelf.RUNNING: -1, Shelf.COMPLETED: -2, Shelf.DEAD: -3, Shelf.ARCHIVED: -4}
"""Where records are that are in no lane."""
_RUNNING, _COMPLETED = Shelf.RUNNING, Shelf.COMPLETED
_RUNNING_PLACE, _COMPLETED_PLACE = PLACES[_RUNNING], PLACES[_COMPLETED]
_PENDING: Final = Shelf.PENDING.value
_SHELVES: Final = {place: shelf.value for shelf, place in PLACES.items()}

Name: TypeAlias = tuple[str, str, str, int]
"""tenant, queue, type, priority"""
First: TypeAlias = tuple[float, int]
"""When the first record of a lane is due, and its life"""
Lane: TypeAlias = tuple[int, float, int, int]
"""priority, when its first record is due, the life of that, number"""


def shelf_at(place: int) -> str:
    """That of a place that nobody gives is none, and the record corrupt."""
    return _PENDING if place > 0 else _SHELVES.get(place, "")


class Lanes:
    """Where claims find what they may take."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def first(self, wanted: Wanted) -> list[Lane]:
        """Those that have the first records of all that are wanted, in claim order."""
        lanes = [lane for board in self._boards(wanted) for lane in board]
        return sorted(lanes)[: wanted.count]

    def lives_in(self, lanes: list[Lane], wanted: Wanted) -> list[int]:
        """The lives of the first records in several of them, in claim order."""
        found = merge(*(self._records(lane, wanted) for lane in lanes))
        return [life for _, _, life in islice(found, wanted.count)]

    def next_due(self, wanted: Wanted) -> float | None:
        asked = {
            "tenant": wanted.tenant,
            "queues": None if wanted.queues is None else as_json(wanted.queues),
            "types": None if wanted.types is None else as_json(wanted.types),
            "paused": as_json(list(wanted.paused)),
        }
        due_at: float | None = self._rows("next_due", asked)[0][0]
        return due_at

    def _boards(self, wanted: Wanted) -> Iterator[list[Lane]]:
        """Of each that is named the first lanes; of a kind, at most as many as there is to take."""
        asked = {
            "tenant": wanted.tenant,
            "due_by": wanted.due_by,
            "paused": as_json(list(wanted.paused)),
            "count": wanted.count,
        }
        queues = None if wanted.queues is None else dict.fromkeys(wanted.queues)
        types = None if wanted.types is None else dict.fromkeys(wanted.types)
        if queues is None and types is None:
            yield self._rows("lanes", asked)
        elif queues is None:
            for type in types or ():
                yield self._rows("lanes_of_type", {**asked, "type": type})
        elif types is None:
            for queue in queues:
                yield self._rows("lanes_of_queue", {**asked, "queue": queue})
        else:
            for queue in queues:
                for type in types:
                    yield self._rows("lanes_of_both", {**asked, "queue": queue, "type": type})

    def _records(self, lane: Lane, wanted: Wanted) -> Iterator[tuple[int, float, int]]:
        """What is behind the first is read only if the first is taken."""
        priority, first_at, first_life, number = lane
        yield priority, first_at, first_life
        if wanted.count > 1:
            asked = {"number": number, "due_by": wanted.due_by, "count": wanted.count}
            for at, life in self._rows("in_lane", asked):
                if life != first_life:
                    yield priority, at, life

    def _rows(self, name: str, parameters: dict[str, Any]) -> list[Any]:
        return self._database.execute(_SQL[name], parameters).fetchall()


class _Changed:
    """A lane that records enter, or may have left."""

    __slots__ = ("found", "has_lost", "joined", "name", "number")

    def __init__(self, name: Name, number: int, found: First | None) -> None:
        self.name = name
        self.number = number
        self.found = found
        """None: it is new."""
        self.joined: First | None = None
        """The first of those that enter."""
        self.has_lost = False


class LaneChanges:
    """What one write does to lanes. `enter` and `leave` come before it, `settle` after it."""

    def __init__(self, database: Database, places: Mapping[int, int]) -> None:
        self._database = database
        self._places = places
        """Of the records that the turn has found, by life."""
        self._lanes: dict[Name, _Changed] = {}
        self._newest = 0

    def place_of(self, record: Record) -> int:
        """Where to put a record; its lane is noted."""
        shelf = record.shelf
        # Most are one of these, and a member of an enumeration is slow to look up.
        if shelf is _RUNNING:
            return _RUNNING_PLACE
        if shelf is _COMPLETED:
            return _COMPLETED_PLACE
        if shelf is not Shelf.PENDING:
            return PLACES[shelf]
        lane = self._lane((record.tenant, record.queue, record.type, record.priority))
        first = (record.at, record.life)
        if lane.joined is None or first < lane.joined:
            lane.joined = first
        return lane.number

    def leave(self, record: Record) -> None:
        """It is not where it was any more."""
        place = self._places.get(record.life)
        if place is None:
            place = self._place_found(record.life)
        if place > 0:
            lane = self._lane((record.tenant, record.queue, record.type, record.priority))
            if lane.number == place:
                lane.has_lost = True
            else:
                self._leave_number(place)

    def remove(self, life: int) -> None:
        place = self._place_found(life)
        if place > 0:
            self._leave_number(place)

    def settle(self) -> None:
        for lane in self._lanes.values():
            if lane.has_lost:
                first = self._run("first_in_lane", lane.number).fetchone()
            else:
                first = min((each for each in (lane.found, lane.joined) if each), default=None)
            if first is None:
                self._run("remove_lane", *lane.name)
            elif first != lane.found:
                self._run("put_lane", *lane.name, lane.number, *first)

    def _lane(self, name: Name) -> _Changed:
        lane = self._lanes.get(name)
        if lane is None:
            row = self._run("lane", *name).fetchone()
            lane = _Changed(name, row[0], row[1:]) if row else _Changed(name, self._new(), None)
            self._lanes[name] = lane
        return lane

    def _new(self) -> int:
        """A number that no lane has, not even one that this very write leaves empty."""
        if not self._newest:
            self._newest = max(0, self._run("highest_place").fetchone()[0] or 0)
        self._newest += 1
        return self._newest

    def _leave_number(self, number: int) -> None:
        row = self._run("lane_numbered", number).fetchone()
        if row is not None:
            self._lane(row[:4]).has_lost = True

    def _place_found(self, life: int) -> int:
        """0: there is no such record, so that the write will be refused."""
        place = self._places.get(life)
        if place is None:
            row = self._run("place_of", life).fetchone()
            place = row[0] if row else 0
        return place

    def _run(self, name: str, *parameters: Any) -> sqlite3.Cursor:
        return self._database.execute(_SQL[name], parameters)


def as_json(values: Sequence[Any]) -> str:
    return _json.encode(values).decode()
