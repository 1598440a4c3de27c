"""What jobs that have left leave behind: which calls began their lives.

Whoever was not answered asks again, and by then the job may have come, ended and gone. So the
operations of its lives are remembered for a while: within it the same call is a duplicate, later it
is a new one. As everything in the state this is a function of the log alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Final

from msgspec import Struct

from penstock.kernel.events import DepartureCarried
from penstock.kernel.job import Job
from penstock.kernel.retention import lapses_at
from penstock.kernel.settings import Settings

REMEMBERED_SECONDS: Final = 600.0
"""How long the operations of a job that has left are known."""
REMEMBERED_MAX: Final = 1_000_000
"""Of how many jobs at most, all tenants together: some 350 MB. Those that would be forgotten first
go first."""

_DEAD_ENTRIES_MIN: Final = 64
"""Below this many dead entries a rebuild is not worth its while."""


class Departed(Struct, frozen=True, gc=False):
    until: float
    operations: tuple[str, ...] = ()
    """Of its lives, newest last; a life whose id was made for its call needs none."""


def behind(job: Job, settings: Settings, at: float) -> Departed:
    """What an ended job leaves behind that leaves then, or had to before."""
    left_at = min(at, lapses_at(job, settings))
    return Departed(left_at + REMEMBERED_SECONDS, job.operations)


def left_behind(job: Job, settings: Settings, at: float) -> Departed | None:
    """The same of one that had to leave by now and was not let go yet; None: that is long ago."""
    departed = None if job.ended_at is None else behind(job, settings, at)
    return departed if departed is not None and departed.until > at else None


class Departures:
    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Departed] = {}
        """By tenant and id."""
        self._expiries: list[tuple[float, tuple[str, str]]] = []
        self._undo: list[tuple[tuple[str, str], Departed | None]] | None = None

    def __iter__(self) -> Iterator[tuple[str, str, Departed]]:
        for (tenant, id), departed in self._known.items():
            yield tenant, id, departed

    def find(self, tenant: str, id: str, at: float) -> Departed | None:
        departed = self._known.get((tenant, id))
        return departed if departed is not None and departed.until > at else None

    def remember(self, tenant: str, id: str, departed: Departed) -> None:
        self._put((tenant, id), departed)

    def carry(self, event: DepartureCarried) -> None:
        self.remember(event.tenant, event.id, Departed(event.until, event.operations))

    def forget(self, at: float) -> None:
        """Lets go of what nobody may ask for any more, and of the oldest where it is too much."""
        known = self._known
        if len(self._expiries) > 2 * len(known) + _DEAD_ENTRIES_MIN:
            # An id that comes and goes leaves an entry each time, of which the last one counts.
            self._expiries = [(departed.until, name) for name, departed in known.items()]
            heapify(self._expiries)
        expiries = self._expiries
        while expiries and (expiries[0][0] <= at or len(known) > REMEMBERED_MAX):
            until, name = heappop(expiries)
            departed = known.get(name)
            # It may have come and left again since.
            if departed is not None and departed.until == until:
                self._put(name, None)

    def begin(self) -> None:
        self._undo = []

    def settle(self) -> None:
        self._undo = None

    def rollback(self) -> None:
        undo, self._undo = self._undo, None
        for name, before in reversed(undo or ()):
            self._put(name, before)

    def changed(self) -> Iterator[tuple[str, str, Departed]]:
        """What was remembered since `begin`, each once."""
        for tenant, id in dict.fromkeys(name for name, _ in self._undo or ()):
            departed = self._known.get((tenant, id))
            if departed is not None:
                yield tenant, id, departed

    def _put(self, name: tuple[str, str], departed: Departed | None) -> None:
        if self._undo is not None:
            self._undo.append((name, self._known.get(name)))
        if departed is None:
            self._known.pop(name, None)
        else:
            self._known[name] = departed
            heappush(self._expiries, (departed.until, name))
