"""The reads of a turn, as scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from penstock.engines.records.postgres.arrays import blobs, floats, integers, texts
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
    Wanted,
)

Kinds: TypeAlias = dict[str, Callable[[Any], bytes]]

_operations: Final = msgspec.json.Decoder(tuple[str, ...])

SCOPE: Final[Kinds] = {
    "tenants": texts, "queues": texts, "types": texts, "keys": blobs,
}  # fmt: skip


class Finder:
    """Finds what a turn needs: in one exchange, and a second one if keys are involved."""

    def __init__(self, sql: Mapping[str, str]) -> None:
        self._sql = sql

    def head(self) -> Step:
        return Step(self._sql["head"])

    def find(self, need: Need, number: int | None = None) -> Script[Found]:
        """Without a number it is given a new one, after all else was found."""
        # A later row of the same record is the newer one, and those that lock come last.
        rows: dict[int, Row] = {}
        steps = list(self._lookups(need))
        draw = [] if number is not None else [Step(self._sql["number"])]
        departed = self._departed(need)
        if need.may_be_idle and draw:
            # Nothing is read or drawn after that but where something was locked before.
            draws = [Step(self._sql["number_if_any"])]
        else:
            draws = draw if not need.keys else []
        results = yield [*steps, *departed, *draws]
        left = results[len(steps)] if departed else []
        for found in results[: len(steps)]:
            rows.update((row[0], row) for row in found)
        if need.may_be_idle and not rows:
            return NOTHING
        if need.may_be_idle and draw and not results[-1]:
            # What was found is another's just now, and not locked.
            results = yield draw
        scopes = _scopes(rows.values(), need.keys)
        holds: list[KeyHold] = []
        if scopes:
            # Drawn again if keys turned up: it has to be above the holders too.
            results = yield [self._holds(scopes), *draw]
            holds = [hold_in(row) for row in results[0]]
            rows.update((row[8], row[8:]) for row in results[0] if row[8] is not None)
        commit = results[-1][0][0] if number is None else number
        records = [Stored(row[0], row[1], row[2], row[7]) for row in rows.values()]
        return Found(commit, records, holds, [remembered_in(row) for row in left])

    def _lookups(self, need: Need) -> Iterable[Step]:
        if need.ids:
            yield Step(self._sql["by_id"], columns(need.ids, tenants=texts, ids=texts))
        if need.operations:
            claims = columns(need.operations, tenants=texts, claims=texts)
            yield Step(self._sql["by_claim"], claims)
        if need.fronts:
            yield self._fronts("fronts", need.fronts)
        for wanted in need.wanted:
            yield Step(self._sql[f"candidates{by(wanted)}"], asked(wanted))
        if need.riding:
            name = "fronts_if_any" if need.may_be_idle else "fronts"
            yield self._fronts(name, need.riding)

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


def by(wanted: Wanted) -> str:
    """How the names of the statements end that go by what is wanted, and read nothing else."""
    if wanted.queues is not None:
        return "_of_queues"
    # Only lane by lane the records of paused queues are not in the way.
    return "" if wanted.paused else "_of_types"


def asked(wanted: Wanted) -> dict[str, Any]:
    queues = wanted.queues or ()
    return {
        "tenant": wanted.tenant,
        "queues": [queue for queue in queues if queue not in wanted.paused],
        "types": None if wanted.types is None else list(wanted.types),
        "paused": sorted(wanted.paused),
        "due_by": wanted.due_by,
        "count": wanted.count,
    }


def columns(rows: Sequence[Sequence[Any]], **kinds: Callable[[Any], bytes]) -> dict[str, Any]:
    """Rows as one array per column, each of its kind."""
    values = zip(*rows, strict=True)
    return {name: kind(column) for (name, kind), column in zip(kinds.items(), values, strict=True)}


def head_in(rows: Rows) -> Head:
    return Head(*rows[0])


def _scopes(rows: Iterable[Row], keys: Iterable[tuple[str, Scope]]) -> list[tuple[str, Scope]]:
    scopes = dict.fromkeys(keys)
    for _, _, _, tenant, queue, type, key, _ in rows:
        if key is not None:
            scopes[tenant, (queue, type, key.decode())] = None
    return list(scopes)


def remembered_in(row: Row) -> Remembered:
    tenant, id, until, operations = row
    return Remembered(tenant, id, Departed(until, _operations.decode(operations)))


def hold_in(row: Row) -> KeyHold:
    tenant, queue, type, key, id, life, until, lapses_at = row[:8]
    return KeyHold(tenant, (queue, type, key.decode()), Hold(id, life, until), lapses_at)
