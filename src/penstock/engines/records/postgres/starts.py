"""Where claims begin to look while indexes are full of entries of records that are gone.

Whoever has taken a snapshot long ago, such as a report in a transaction that stays open, keeps
the server from forgetting the entries of all that was pending since. They lie before those of the
records that a claim looks for, and each costs a look at the table. So a claim that came upon many
of them leaves behind where it found the first record of each lane, and for a while the next ones
look only from there on. Whatever comes to be pending before that is found by the next search of
everything: at once if it was written by this handle, or when there is too little otherwise, and
after a time that keeps such searches rare.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from penstock.engines.records.postgres.steps import Row
from penstock.ports.clock import Clock
from penstock.ports.records import Put, Shelf, Wanted

ENTRIES_MAX: Final = 4_000
"""A search that has read more entries than this, and than eight for each record, has waded."""
SEARCH_SECONDS: Final = 1.0
SEARCH_SECONDS_MAX: Final = 30.0
SEARCH_SHARE: Final = 0.05
"""Of all time that searches of everything may take, as far as the limits allow."""

Lane: TypeAlias = tuple[str, str, int]
"""Queue, type and priority."""
Place: TypeAlias = tuple[float, int]
"""When the record is due, and its life."""
_Asked: TypeAlias = tuple[str, tuple[str, ...] | None, frozenset[str], tuple[str, ...] | None]


class _Start:
    def __init__(self, until: float) -> None:
        self.until = until
        self.lanes: dict[Lane, Place] = {}


class Starts:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._starts: dict[_Asked, _Start] = {}

    def of(self, wanted: Wanted) -> dict[Lane, Place] | None:
        """From where on to look in which lanes; None: everywhere."""
        start = self._starts.get(_asked(wanted))
        if start is None:
            return None
        if self._clock.elapsed() > start.until:
            self.forget(wanted)
            return None
        return start.lanes

    def forget(self, wanted: Wanted) -> None:
        self._starts.pop(_asked(wanted), None)

    def note_search(
        self, wanted: Wanted, rows: Sequence[Row], entries_read: int, seconds: float
    ) -> None:
        """What a search of everything has found, and what it took."""
        if not rows or entries_read <= max(ENTRIES_MAX, 8 * wanted.count):
            return
        rest = min(SEARCH_SECONDS_MAX, max(SEARCH_SECONDS, seconds / SEARCH_SHARE))
        self._starts[_asked(wanted)] = start = _Start(self._clock.elapsed() + rest)
        start.lanes = _firsts(rows)

    def advance(self, wanted: Wanted, rows: Sequence[Row]) -> None:
        """What was found from there on is the next start."""
        start = self._starts.get(_asked(wanted))
        if start is not None:
            start.lanes = {**start.lanes, **_firsts(rows)}

    def note_written(self, puts: Iterable[Put]) -> None:
        """Forgets the starts that a record of this handle would be missed by."""
        if not self._starts:
            return
        for put in puts:
            record = put.record
            if record.shelf is not Shelf.PENDING:
                continue
            lane, place = (record.queue, record.type, record.priority), (record.at, record.life)
            for asked, start in list(self._starts.items()):
                if asked[0] == record.tenant and place < start.lanes.get(lane, (float("inf"), 0)):
                    self._starts.pop(asked, None)


def _asked(wanted: Wanted) -> _Asked:
    return wanted.tenant, wanted.queues, wanted.paused, wanted.types


def _firsts(rows: Iterable[Row]) -> dict[Lane, Place]:
    firsts: dict[Lane, Place] = {}
    for life, _, _, _, queue, type, _, _, priority, due_at in rows:
        lane, place = (queue, type, priority), (due_at, life)
        if place < firsts.get(lane, (float("inf"), 0)):
            firsts[lane] = place
    return firsts
