"""The port to a warehouse: tables that are read and changed one snapshot at a time.

The protocol that makes every commit of the log count once, whatever is killed in between:

1. A snapshot of a table is taken; its cursor is the last commit of the log that it contains.
2. Rows for the commits after the cursor are written to files that nobody names yet.
3. The snapshot commits those files together with the new cursor, on the condition that the table
   has not changed since. Whoever loses, or gets no answer, starts at 1, where a cursor at or above
   the one wanted says that it is done: by the attempt whose answer was lost, or by another.

So the cursor is always read from the snapshot that commits. One read any later would accept
the same commits twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from typing import Final, Protocol

from penstock.pipeline.tables import Table
from penstock.pipeline.warehouse.files import DataFile
from penstock.pipeline.warehouse.place import Place

FILES_PER_DAY_MAX: Final = 8
"""A day that is over and has more of them is compacted."""


class Conflict(Exception):
    """The commit was refused, or its answer was lost; the table says which when it is read."""


class Snapshot(Protocol):
    @property
    def cursor(self) -> int | None:
        """The last commit that the table contains; None before the first."""
        ...

    def files(self) -> Sequence[DataFile]: ...

    def commit(self, added: Sequence[DataFile], removed: Sequence[DataFile], cursor: int) -> None:
        """All of it or nothing, if the table is still as in this snapshot; else `Conflict`."""
        ...


class Warehouse(Protocol):
    @property
    def place(self) -> Place: ...

    def snapshot(self, table: Table) -> Snapshot:
        """As of now. A table that is not there is made, one that lacks columns gains them."""
        ...

    def maintain(self, table: Table, today: date, keep_from: date | None, now: datetime) -> None:
        """Compacts the days before today, lets go those before `keep_from`, sweeps the rest.

        The cursor and the rows that stay are what they were. Whatever another pipeline does
        meanwhile goes first.
        """
        ...


def crowded_days(files: Sequence[DataFile], today: date) -> list[str]:
    counts = Counter(file.date for file in files if file.date < today.isoformat())
    return sorted(day for day, count in counts.items() if count > FILES_PER_DAY_MAX)
