"""The reads of a turn, as scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from penstock.engines.records.postgres.arrays import blobs, floats, integers, texts
from penstock.engines.records.postgres.searching import Kinds, Search, columns
from penstock.engines.records.postgres.starts import Starts
from penstock.engines.records.postgres.steps import Row, Rows, Script, Step
from penstock.kernel.departures import Departed
from penstock.kernel.tenancy import Hold, Scope
from penstock.ports.records import (
    NOTHING,
    Found,
    Front,
    Head,
    KeyHold,
    Need,
    Remembered,
    Stored,
)
from penstock.runtime.clock import SystemClock
from penstock.wire.packed import unpack

_operations: Final = msgspec.json.Decoder(tuple[str, ...])

SCOPE: Final[Kinds] = {
    "tenants": texts, "queues": texts, "types": texts, "keys": blobs,
}  # fmt: skip


class Finder:
    """Finds what a turn needs: in one exchange, and another if keys are involved, or if the
    candidates fell short."""

    def __init__(self, sql: Mapping[str, str]) -> None:
        self.starts = Starts(SystemClock())
        self._sql = sql
        self._clock = SystemClock()

    def head(self) -> Step:
        return Step(self._sql["head"])

    def find(self, need: Need, number: int | None = None, entries_read: int = 0) -> Script[Found]:
        """Without a number it is given a new one, after all else was found.

        `entries_read` is how many entries of indexes had been read before.
        """
        named = list(self._lookups(need))
        searches = [Search(wanted, self.starts) for wanted in need.wanted]
        looks = [search.first_look(self._sql) for search in searches]
        steps = [*named, *looks, *self._riding(need)]
        draw = [] if number is not None else [Step(self._sql["number"])]
        # An idle turn has locked nothing, and draws nothing either.
        draw_if_any = [Step(self._sql["number_if_any"])] if draw and need.may_be_idle else draw
        departed = self._departed(need)
        began_at = self._clock.elapsed()
        results = yield [*steps, *departed, *draw_if_any]
        seconds = self._clock.elapsed() - began_at
        drawn = results[-1] if draw else []
        left = results[len(steps)] if departed else []
        looked = slice(len(named), len(named) + len(looks))
        for search, found in zip(searches, results[looked], strict=True):
            search.take(found, drawn[0][1] - entries_read if drawn else 0, seconds)
        # A later row of the same record is the newer one, and those that lock come last.
        others = [*results[: looked.start], *results[looked.stop : len(steps)]]
        rows = {row[0]: row for found in others for row in found}
        if short := [search for search in searches if search.is_short]:
            looks = [search.second_look(self._sql) for search in short]
            results = yield [*looks, *draw_if_any]
            drawn = results[-1] if draw else []
            for search, found in zip(short, results, strict=False):
                search.take_more(found)
        rows.update((row[0], row[:8]) for search in searches for row in search.rows)
        if need.may_be_idle and not rows:
            return NOTHING
        scopes = _scopes(rows.values(), need.keys)
        holds: list[KeyHold] = []
        if scopes:
            # Drawn again if keys turned up: it has to be above the holders too.
            results = yield [self._holds(scopes), *draw]
            drawn = results[-1] if draw else []
            holds = [hold_in(row) for row in results[0]]
            rows.update((row[8], row[8:]) for row in results[0] if row[8] is not None)
        if draw and not drawn:
            # What was found is another's just now, and not locked.
            [drawn] = yield draw
        commit = drawn[0][0] if number is None else number
        records = [Stored(row[0], row[1], row[2], body_in(row)) for row in rows.values()]
        return Found(commit, records, holds, [remembered_in(row) for row in left])

    def _lookups(self, need: Need) -> Iterable[Step]:
        if need.ids:
            yield Step(self._sql["by_id"], columns(need.ids, tenants=texts, ids=texts))
        if need.operations:
            claims = columns(need.operations, tenants=texts, claims=texts)
            yield Step(self._sql["by_claim"], claims)
        # What rides along is looked for at once where something else is written anyway.
        fronts = need.fronts if need.may_be_idle else (*need.fronts, *need.riding)
        if fronts:
            yield self._fronts("fronts", fronts)

    def _riding(self, need: Need) -> list[Step]:
        if not need.riding or not need.may_be_idle:
            return []
        return [self._fronts("fronts_if_any", need.riding)]

    def _departed(self, need: Need) -> list[Step]:
        """After the records: what left in between is then found here."""
        if not need.departed:
            return []
        return [Step(self._sql["departed"], columns(need.departed, tenants=texts, ids=texts))]

    def _fronts(self, name: str, fronts: Sequence[Front]) -> Step:
        rows = [(front.shelf.value, front.until, front.least, front.most) for front in fronts]
        kinds: Kinds = {"shelves": texts, "untils": floats, "leasts": integers, "mosts": integers}
        return Step(self._sql[name], columns(rows, **kinds))

    def _holds(self, scopes: Iterable[tuple[str, Scope]]) -> Step:
        wanted = [(tenant, *scope[:2], scope[2].encode()) for tenant, scope in scopes]
        return Step(self._sql["holds"], columns(wanted, **SCOPE))


def head_in(rows: Rows) -> Head:
    return Head(*rows[0])


def _scopes(rows: Iterable[Row], keys: Iterable[tuple[str, Scope]]) -> list[tuple[str, Scope]]:
    scopes = dict.fromkeys(keys)
    for _, _, _, tenant, queue, type, key, _ in rows:
        if key is not None:
            scopes[tenant, (queue, type, key.decode())] = None
    return list(scopes)


def body_in(row: Row) -> bytes:
    return unpack(f"the record of life {row[0]}", row[7])


def remembered_in(row: Row) -> Remembered:
    tenant, id, until, operations = row
    return Remembered(tenant, id, Departed(until, _operations.decode(operations)))


def hold_in(row: Row) -> KeyHold:
    tenant, queue, type, key, id, life, until, lapses_at = row[:8]
    return KeyHold(tenant, (queue, type, key.decode()), Hold(id, life, until), lapses_at)
