"""The reads for people who look, as scripts; each sees one moment unless it says otherwise."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from penstock.engines.records.postgres.finding import head_in, hold_in, remembered_in
from penstock.engines.records.postgres.searching import asked, by
from penstock.engines.records.postgres.statements import Statements
from penstock.engines.records.postgres.steps import Rows, Script, Step
from penstock.engines.records.postgres.turning import BEGIN, COMMIT, LOOK
from penstock.engines.records.statements import page_of, times_of_survey
from penstock.kernel.job import State
from penstock.ports.counters import Count, Survey, Waiting
from penstock.ports.listing import Page, PageAsked
from penstock.ports.records import (
    Departure,
    Due,
    Head,
    KeyHold,
    Remembered,
    Wanted,
)
from penstock.wire.packed import unpack

WOKEN_SECONDS: Final = 0.1
"""How long one who was woken is taken to be about to claim."""


class Noted(Struct, frozen=True):
    """How the server knows one who waits."""

    name: str
    session: int
    """The one that hears for it."""
    stays: bool


class Looker:
    def __init__(self, sql: Statements) -> None:
        self._sql = {**sql.finding, **sql.looking, "note_waiter": sql.writing["note_waiter"]}

    def head(self) -> Script[Head]:
        return head_in((yield from self._rows("head")))

    def listing(self, asked: PageAsked) -> Script[Page]:
        rows = yield from self._rows(
            "listing", tenant=asked.tenant, shelves=[str(shelf) for shelf in asked.shelves],
            queue=asked.queue, type=asked.type, after=asked.after, until=asked.until,
            most=asked.looks_at,
        )  # fmt: skip
        shelves: dict[str, list[tuple[int, bytes | None]]] = {}
        for shelf, life, body in rows:
            shelves.setdefault(shelf, []).append((life, body))
        return page_of(asked, shelves.values())

    def survey(self, tenant: str, at: float) -> Script[Survey]:
        begun = yield [LOOK, self._step("head")]
        head = head_in(begun[1])
        counted, waiting, size, _ = yield [
            self._step("counts", tenant=tenant),
            self._step("waiting", tenant=tenant, **times_of_survey(at, head.at)),
            self._step("size"),
            COMMIT,
        ]
        counts = [Count(queue, State(state), now, gone) for queue, state, now, gone in counted]
        waiting_rows = [Waiting(*row) for row in waiting]
        behind = head.commit - head.readable
        return Survey(head.commit, counts, waiting_rows, size[0][0], behind)

    def next_due(self, wanted: Wanted, waiter: Noted | None) -> Script[Due]:
        """Noted before the last look: what is written later wakes it, what was before is seen."""
        name, session = (waiter.name, waiter.session) if waiter else ("", 0)
        look = [
            Step(self._sql[f"due{by(wanted)}"], asked(wanted)),
            self._step("lease_end"),
            self._step("place", waiter=name, session=session, moment=WOKEN_SECONDS),
        ]
        due, leases, place = yield look
        is_due = due[0][0] is not None and due[0][0] <= wanted.due_by
        if waiter is not None and not place[0][0] and (waiter.stays or not is_due):
            yield [
                self._step(
                    "note_waiter",
                    waiter=name,
                    tenant=wanted.tenant,
                    queues=None if wanted.queues is None else list(wanted.queues),
                    types=None if wanted.types is None else list(wanted.types),
                    session=session,
                )
            ]
            due, leases, place = yield look
        ahead = place[0][1] if waiter is not None else 0
        return Due(due[0][0], leases[0][0] if leases else None, ahead=ahead)

    def tenants(self) -> Script[list[str]]:
        return [row[0] for row in (yield from self._rows("tenants"))]

    def lapsing(self, tenant: str, after: float) -> Script[list[KeyHold]]:
        rows = yield from self._rows("lapsing", tenant=tenant, after=after)
        return [hold_in(row) for row in rows]

    def remembered(self, tenant: str, after: float) -> Script[list[Remembered]]:
        rows = yield from self._rows("remembered", tenant=tenant, after=after)
        return [remembered_in(row) for row in rows]

    def departure(self, tenant: str, id: str, life: int | None) -> Script[Departure | None]:
        rows = yield from self._rows("departure", tenant=tenant, id=id, life=life)
        return Departure(tenant, id, rows[0][0], tuple(rows[0][1])) if rows else None

    def commits(self, after: int, count: int) -> Script[list[tuple[int, bytes]]]:
        # In this order: what is readable by then is seen by a look that begins afterwards.
        readable = (yield from self.head()).readable
        rows = yield from self._rows("commits", after=after, readable=readable, count=count)
        return [(number, unpack(f"commit {number}", events)) for number, events in rows]

    def commit(self, number: int) -> Script[bytes | None]:
        rows = yield from self._rows("commit", number=number)
        return unpack(f"commit {number}", rows[0][0]) if rows else None

    def settled_commit(self, number: int) -> Script[bytes | None]:
        """The same, once every turn that is under way has ended."""
        results = yield [BEGIN, self._step("settle"), self._step("commit", number=number), COMMIT]
        return unpack(f"commit {number}", results[2][0][0]) if results[2] else None

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
