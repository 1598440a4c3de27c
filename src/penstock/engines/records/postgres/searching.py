"""The search for the candidates of one kind of claim: a first look, and a second if it fell short.

The first look takes so many of each lane as are among the first of all, past those that another
turn has. Where all that are left of a lane are another's, there may be more in other lanes than it
had a look at: then the second goes over all lanes in one order. A look that began at the places
that an earlier one left behind (`starts`) and fell short is followed by one that begins nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from penstock.engines.records.postgres.arrays import Packed, floats, integers, texts
from penstock.engines.records.postgres.starts import Starts
from penstock.engines.records.postgres.steps import Row, Rows, Step
from penstock.ports.records import Wanted

POOL_SHARE: Final = 8
POOL_RECORDS: Final = 64
"""How far a look goes that is past others' records: so many times what is wanted, and so many
more."""

Kinds: TypeAlias = dict[str, Callable[[Any], Packed]]

_LANES: Final[Kinds] = {
    "lane_queues": texts, "lane_types": texts, "lane_priorities": integers,
    "from_times": floats, "from_lives": integers,
}  # fmt: skip


class Search:
    def __init__(self, wanted: Wanted, starts: Starts) -> None:
        self.rows: Rows = []
        """What was found, and is the turn's own if it locks."""
        self.is_short = False
        """Whether there may be more than that which nobody else has."""
        self._wanted = wanted
        self._starts = starts
        self._lanes = starts.of(wanted)
        self._pool = POOL_SHARE * wanted.count + POOL_RECORDS

    def first_look(self, sql: Mapping[str, str]) -> Step:
        if self._lanes is None:
            return Step(sql[f"candidates{by(self._wanted)}"], asked(self._wanted))
        rows = [(*lane, *place) for lane, place in self._lanes.items()]
        limits = {**asked(self._wanted), "pool": self._pool}
        return Step(sql["candidates_from"], {**limits, **columns(rows, **_LANES)})

    def take(self, found: Rows, entries_read: int, seconds: float) -> None:
        """What the first look found, and what it took."""
        if self._lanes is not None:
            self.rows = found
            self.is_short = len(found) < self._wanted.count
            if self.is_short:
                self._starts.forget(self._wanted)
            else:
                self._starts.advance(self._wanted, found)
            return
        seen = next((row[1] for row in found if row[0] is None), None) or 0
        self.rows = [row for row in found if row[0] is not None]
        self.is_short = len(self.rows) < seen == self._wanted.count
        self._starts.note_search(self._wanted, self.rows, entries_read, seconds)

    def second_look(self, sql: Mapping[str, str]) -> Step:
        name = f"candidates{by(self._wanted)}"
        if self._lanes is not None:
            return Step(sql[name], asked(self._wanted))
        return Step(sql[f"more_{name}"], {**asked(self._wanted), "pool": self._pool})

    def take_more(self, found: Rows) -> None:
        rows: list[Row] = [row for row in found if row[0] is not None]
        self.rows = [*self.rows, *rows]


def by(wanted: Wanted) -> str:
    """How the names of the statements end that go by what is wanted, and read nothing else."""
    if wanted.queues is not None:
        return "_of_queues"
    if wanted.paused:
        # Only lane by lane the records of paused queues are not in the way.
        return ""
    return "_of_all" if wanted.types is None else "_of_types"


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


def columns(rows: Sequence[Sequence[Any]], **kinds: Callable[[Any], Packed]) -> dict[str, Any]:
    """Rows as one array per column, each of its kind."""
    values = zip(*rows, strict=True)
    return {name: kind(column) for (name, kind), column in zip(kinds.items(), values, strict=True)}
