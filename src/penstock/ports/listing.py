"""Lists of jobs, a page at a time: what a page is, and cursors.

A cursor is made from a job, whatever the backend, and has what any of them may order jobs by: the
life, of a job that waits in an import its row, and the id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from penstock.errors import InvalidInput
from penstock.errors.input import shown
from penstock.kernel.job import Job

PAGE_JOBS: Final = 200
"""How many jobs a listing reads at once, if no fewer are wanted."""
LOOKED_AT_MAX: Final = 2_000
"""How many jobs a page looks at to find those that pass the filter: a millisecond or two. A page
may come back with fewer than were wanted, or none, and the listing goes on behind it."""

_SEPARATOR: Final = "/"
_NUMBERS_END: Final = 2**63


class Place(Struct, frozen=True):
    """Of one job in a list."""

    life: int
    row: int | None
    """Of a job that waits in the import that came with that life."""
    id: str


class PageAsked(Struct, frozen=True):
    """Of one tenant's records on some shelves, the first by life: behind one, up to another."""

    tenant: str
    shelves: Sequence[str]
    queue: str | None
    """None: of any."""
    type: str | None
    after: int
    until: int
    count: int
    """How many at most."""

    @property
    def looks_at(self) -> int:
        """How many records there are to look at, at most, to find so many that are asked for."""
        is_narrow = self.queue is not None or self.type is not None
        return LOOKED_AT_MAX if is_narrow else self.count


class Page(Struct, frozen=True):
    bodies: list[bytes]
    """Of the records that were found, by life."""
    reached: int | None
    """The life up to which all were found; None: there are no more behind it."""


def is_unadmitted(job: Job) -> bool:
    """A row of an import has no life of its own yet, only that of its import."""
    return job.source != 0 and job.life == job.source


def cursor_of(job: Job) -> str:
    """What a listing takes to go on behind this job."""
    row = str(job.row) if is_unadmitted(job) else ""
    return _SEPARATOR.join((str(job.life), row, job.id))


def place_in(cursor: str) -> Place:
    life, _, rest = cursor.partition(_SEPARATOR)
    row, separator, id = rest.partition(_SEPARATOR)
    if not (separator and id and _is_number(life) and (not row or _is_number(row))):
        raise InvalidInput(f"after={shown(cursor)}: it must be a cursor, as a listing gives them")
    return Place(int(life), int(row) if row else None, id)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20 and int(text) < _NUMBERS_END
