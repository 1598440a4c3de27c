"""Lists of jobs, a page at a time.

A page walks over a tenant's records by life and looks at no more than it may. Where one shelf is
asked for and has few records, their lives are put in order instead, so that those that failed are
found behind a million that did not. The walk has an index of its own that is never changed between
the beginning and the end of a life; an index by shelf would be changed twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Any, Final

from penstock.engines.records.sqlite.database import Database
from penstock.engines.records.sqlite.lanes import PLACES, as_json
from penstock.engines.records.statements import statements
from penstock.ports.listing import LOOKED_AT_MAX, Page, PageAsked
from penstock.ports.records import Shelf
from penstock.wire.packed import unpack

_SQL: Final = statements(__package__, "lists.sql")

SORTED_MAX: Final = 10_000
"""How many lives of a shelf are put in order for a page; they are read from an index."""


class Lists:
    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, asked: PageAsked) -> Page:
        shelves = [Shelf(shelf) for shelf in asked.shelves]
        given = {
            "tenant": asked.tenant,
            "is_pending": Shelf.PENDING in shelves,
            "places": as_json([PLACES[shelf] for shelf in shelves if shelf in PLACES]),
            "queue": asked.queue,
            "type": asked.type,
        }
        lives = self._few(shelves[0], given) if len(shelves) == 1 else None
        if lives is None:
            walked = {**given, "after": asked.after, "until": asked.until, "most": LOOKED_AT_MAX}
            with closing(self._database.execute(_SQL["walk"], walked)) as rows:
                return _page(rows, asked.count)
        behind = sorted(life for life in lives if asked.after < life <= asked.until)
        named = {**given, "lives": as_json(behind[:LOOKED_AT_MAX])}
        with closing(self._database.execute(_SQL["of_lives"], named)) as rows:
            return _page(rows, asked.count)

    def _few(self, shelf: Shelf, given: dict[str, Any]) -> list[int] | None:
        """The lives of what is on a shelf, of all tenants perhaps; None if they are too many."""
        asked = {**given, "place": PLACES.get(shelf), "most": SORTED_MAX + 1}
        name = "lives_in_lanes" if shelf is Shelf.PENDING else "lives_at"
        rows = self._database.execute(_SQL[name], asked).fetchall()
        return None if len(rows) > SORTED_MAX else [life for (life,) in rows]


def _page(rows: Iterable[tuple[int, bytes | None]], count: int) -> Page:
    bodies: list[bytes] = []
    looked_at, life = 0, None
    for life, body in rows:
        looked_at += 1
        if body is not None:
            bodies.append(unpack("a listed record", body))
        if len(bodies) == count:
            return Page(bodies, life)
    return Page(bodies, life if looked_at == LOOKED_AT_MAX else None)
