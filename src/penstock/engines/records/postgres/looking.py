"""The reads for people who look, as scripts; each sees one moment unless it says otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.engines.records.postgres.finding import head_in, hold_in
from penstock.engines.records.postgres.statements import Statements
from penstock.engines.records.postgres.steps import Rows, Script, Step
from penstock.engines.records.postgres.turning import BEGIN, COMMIT, LOOK
from penstock.kernel.job import State
from penstock.ports.records import (
    Count,
    Departure,
    Due,
    Head,
    KeyHold,
    Shelf,
    Survey,
    Waiting,
    Wanted,
)


class Looker:
    def __init__(self, sql: Statements) -> None:
        self._sql = {**sql.finding, **sql.looking}

    def head(self) -> Script[Head]:
        return head_in((yield from self._rows("head")))

    def listing(
        self, tenant: str, shelves: Sequence[Shelf], queue: str | None, type: str | None
    ) -> Script[list[bytes]]:
        named = [shelf.value for shelf in shelves]
        rows = yield from self._rows(
            "listing", tenant=tenant, shelves=named, queue=queue, type=type
        )
        return [row[0] for row in rows]

    def survey(self, tenant: str, at: float) -> Script[Survey]:
        results = yield [
            LOOK,
            self._step("head"),
            self._step("counts", tenant=tenant),
            self._step("waiting", tenant=tenant, at=at),
            COMMIT,
        ]
        counts = [Count(queue, State(state), now, gone) for queue, state, now, gone in results[2]]
        waiting = [Waiting(*row) for row in results[3]]
        return Survey(head_in(results[1]).commit, counts, waiting)

    def next_due(self, wanted: Wanted) -> Script[Due]:
        lanes, leases = yield [
            self._step("lanes", tenant=wanted.tenant),
            self._step("lease_end"),
        ]
        due = [
            due_at
            for queue, type, _, due_at in lanes
            if queue not in wanted.paused
            and (wanted.queues is None or queue in wanted.queues)
            and (wanted.types is None or type in wanted.types)
        ]
        return Due(min(due, default=None), leases[0][0] if leases else None)

    def tenants(self) -> Script[list[str]]:
        return [row[0] for row in (yield from self._rows("tenants"))]

    def lapsing(self, tenant: str, after: float) -> Script[list[KeyHold]]:
        rows = yield from self._rows("lapsing", tenant=tenant, after=after)
        return [hold_in(row) for row in rows]

    def departure(self, tenant: str, id: str) -> Script[Departure | None]:
        rows = yield from self._rows("departure", tenant=tenant, id=id)
        return Departure(tenant, id, rows[0][0], tuple(rows[0][1])) if rows else None

    def commits(self, after: int, count: int) -> Script[list[tuple[int, bytes]]]:
        # In this order: what is readable by then is seen by a look that begins afterwards.
        readable = (yield from self.head()).readable
        rows = yield from self._rows("commits", after=after, readable=readable, count=count)
        return [(number, events) for number, events in rows]

    def commit(self, number: int) -> Script[bytes | None]:
        rows = yield from self._rows("commit", number=number)
        return rows[0][0] if rows else None

    def settled_commit(self, number: int) -> Script[bytes | None]:
        """The same, once every turn that is under way has ended."""
        results = yield [BEGIN, self._step("settle"), self._step("commit", number=number), COMMIT]
        return results[2][0][0] if results[2] else None

    def first_commit(self) -> Script[int]:
        rows = yield from self._rows("first_commit")
        return int(rows[0][0])

    def sides(self) -> Script[dict[str, float | None]]:
        return dict((yield from self._rows("sides")))

    def _rows(self, name: str, **parameters: Any) -> Script[Rows]:
        results = yield [self._step(name, **parameters)]
        return results[0]

    def _step(self, name: str, **parameters: Any) -> Step:
        return Step(self._sql[name], parameters or None)
