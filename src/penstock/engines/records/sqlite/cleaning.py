"""The vacuum of one file: what is old goes a slice at a time, and the room is given back.

A slice is a transaction of its own and ends after so many rows or bytes, so that a first vacuum of
millions of commits holds the write lock for a moment at a time. Between two slices the lock is left
alone for longer than anybody waits before trying again (`database`).

Pages that have become free are for the next commits. Those beyond a part of the file are given back
to the file system, where the file was made for it (auto_vacuum), and so is the log when no reader
needs it.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.engines.records.sqlite.database import Database
from penstock.engines.records.statements import statements
from penstock.runtime.clock import block

_SQL: Final = statements(__package__, "cleaning.sql")
_INCREMENTAL: Final = 2
"""What SQLite calls the kind of auto_vacuum that waits to be told."""

SLICE_COMMITS: Final = 500
SLICE_BYTES: Final = 8 * 1024 * 1024
"""A slice of commits ends at either."""
SLICE_SIDES: Final = 5_000
SLICE_PAGES: Final = 2_000
PAUSE_SECONDS: Final = 0.005
FREE_PAGES_MIN: Final = 256
FREE_SHARE: Final = 8
"""So many pages stay free, or one in so many of the file's."""


class Cleaner:
    def __init__(self, database: Database) -> None:
        self._database = database

    def pause(self) -> None:
        """Lets others have the write lock."""
        block(PAUSE_SECONDS)

    def drop_commits(self, written_before: float, below: int) -> tuple[int, bool]:
        """A slice of the commits that are older and have a lower number, and the departures whose
        events have gone with them. How many went, and whether there may be more."""
        with self._database.writing():
            found = self._run("first_commits", SLICE_COMMITS).fetchall()
            size_bytes, going = 0, 0
            for number, at, events_bytes in found:
                is_young = at >= written_before or number >= below
                if is_young or size_bytes > SLICE_BYTES:
                    break
                size_bytes += events_bytes
                going += 1
            is_more = going == SLICE_COMMITS or size_bytes > SLICE_BYTES
            first = found[going][0] if going < len(found) else below
            if is_more:
                first = found[going - 1][0] + 1
            first = min(below, first)
            self._run("drop_commits", first)
            self._run("raise_first_commit", first)
            self._run("forget_departures", first)
        return going, is_more

    def forget_sides(self, released_before: float, after: str) -> str | None:
        """A slice of what is known of side objects: those that were released before are forgotten.
        The key up to which it has looked; None: that was all."""
        with self._database.writing():
            found = self._run("next_sides", after, SLICE_SIDES).fetchall()
            if not found:
                return None
            last = found[-1][0]
            self._run("forget_sides", after, last, released_before)
        return last if len(found) == SLICE_SIDES else None

    def give_back(self) -> bool:
        """A slice of the free pages beyond those that will be needed; whether there may be more."""
        free, total = self._number("freelist_count"), self._number("page_count")
        excess = free - max(FREE_PAGES_MIN, total // FREE_SHARE)
        if excess <= 0 or self._number("auto_vacuum") != _INCREMENTAL:
            return False
        wanted = min(excess, SLICE_PAGES)
        self._database.alone(f"PRAGMA incremental_vacuum({wanted})")
        return excess > wanted and self._number("freelist_count") < free

    def shorten_log(self) -> None:
        """As far as no reader needs it: then the next vacuum does."""
        self._database.alone("PRAGMA wal_checkpoint(TRUNCATE)")

    def _number(self, pragma: str) -> int:
        return int(self._database.execute(f"PRAGMA {pragma}").fetchone()[0])

    def _run(self, name: str, *parameters: Any) -> Any:
        return self._database.execute(_SQL[name], parameters)
