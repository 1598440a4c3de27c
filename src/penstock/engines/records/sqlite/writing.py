"""The write of a turn: compares versions and writes, and knows nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from penstock.engines.records.bodies import kept_body
from penstock.engines.records.sqlite.database import Database
from penstock.engines.records.sqlite.lanes import LaneChanges
from penstock.engines.records.statements import statements
from penstock.kernel.departures import Departed
from penstock.kernel.events import commit_of
from penstock.ports.counters import minute_of
from penstock.ports.records import Change, Departure, HoldChange, Put, Remembered, Unheard
from penstock.wire.packed import pack

_SQL: Final = statements(__package__, "writing.sql")


class Conflict(Exception):
    """Something is not as it was found; the transaction has to be taken back."""


class Writer:
    def __init__(self, database: Database) -> None:
        self._database = database

    def write(self, change: Change, places: Mapping[int, int]) -> None:
        """Within a transaction of the caller's; `places` are those of the records it has found."""
        commit, lanes = change.commit, LaneChanges(self._database, places)
        for gone in change.removals:
            lanes.remove(gone.life)
        begun, going_on = _inserts(change.puts, commit, lanes), _updates(change.puts, commit, lanes)
        self._each("remove_job", [(one.life, one.version) for one in change.removals], exact=True)
        try:
            self._each("insert_job", begun)
        except sqlite3.IntegrityError as error:
            raise Conflict from error
        self._each("update_job", going_on, exact=True)
        lanes.settle()
        self._write_holds(change.holds)
        self._compare_remembered(change.unheard)
        self._each("count", [
            (one.tenant, one.queue, one.type, one.state.value, one.now, one.left)
            for one in change.counts
        ])  # fmt: skip
        if change.due:
            self._each("count_due", [astuple(one) for one in change.due])
            self._run("forget_minutes", minute_of(change.at))
        self._each("depart", [_departed(one) for one in change.departures])
        self._run("forget_calls", change.lapsed_at)
        self._each("remember", [_remembered(one) for one in change.remembered])
        self._each("name_side", list(change.sides.items()))
        self._run("free_lapsed_keys", change.lapsed_at)
        self._run("add_commit", commit, change.at, pack(change.events))
        head = (commit, change.at, change.clock, change.completed, change.charter_found)
        self._each("move_head", [head], exact=True)
        if change.charter is not None:
            self._run("set_charter", change.charter, commit)

    def _compare_remembered(self, unheard: Sequence[Unheard]) -> None:
        for one in unheard:
            known = self._run("remembered_of", one.tenant, one.id).fetchone()
            if known != (None if one.departed is None else _departed_columns(one.departed)):
                raise Conflict

    def _write_holds(self, changes: Sequence[HoldChange]) -> None:
        freed = [(one.tenant, *one.scope, one.found) for one in changes if one.found is not None]
        self._each("free_key", freed, exact=True)
        taken = [
            (one.tenant, *one.scope, one.after.hold.id, one.after.hold.life, one.after.hold.until,
             one.after.lapses_at)
            for one in changes if one.after is not None
        ]  # fmt: skip
        try:
            self._each("take_key", taken)
        except sqlite3.IntegrityError as error:
            raise Conflict from error

    def _run(self, name: str, *parameters: Any) -> sqlite3.Cursor:
        return self._database.execute(_SQL[name], parameters)

    def _each(self, name: str, rows: Sequence[tuple[Any, ...]], *, exact: bool = False) -> None:
        """`exact`: every one of them must be there, as it was found."""
        if not rows:
            return
        cursor = self._database.connection.executemany(_SQL[name], rows)
        if exact and cursor.rowcount != len(rows):
            raise Conflict


def _inserts(puts: Sequence[Put], commit: int, lanes: LaneChanges) -> list[tuple[Any, ...]]:
    return [
        (one.life, commit, lanes.place_of(one), one.at, one.tenant, one.id, one.queue, one.type,
         one.key, one.claim, one.body)
        for one in [put.record for put in puts if put.found is None]
    ]  # fmt: skip


def _updates(puts: Sequence[Put], commit: int, lanes: LaneChanges) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for put in puts:
        if put.found is not None:
            one = put.record
            lanes.leave(one)
            rows.append((
                commit, lanes.place_of(one), one.at, one.claim, kept_body(one, len(puts)),
                one.life, put.found,
            ))  # fmt: skip
    return rows


def _remembered(one: Remembered) -> tuple[Any, ...]:
    return one.tenant, one.id, *_departed_columns(one.departed)


def _departed_columns(departed: Departed) -> tuple[float, str]:
    return departed.until, msgspec.json.encode(departed.operations).decode()


def _departed(one: Departure) -> tuple[Any, ...]:
    last = one.trail[-1] if one.trail else one.life
    trail = msgspec.json.encode(one.trail).decode()
    return one.tenant, one.id, one.life, commit_of(last), trail
