"""One tenant's jobs in the order in which their lives began, so that a list can go on anywhere.

Two columns side by side: the lives, which grow, and the ids that have them. Whoever lists remembers
the last life that it has seen and finds its place again by bisection, whatever has come and gone
meanwhile. A job that leaves leaves its entry behind; when more than half of them are dead, the
columns are made again, so n jobs cost at most 2n entries and each change O(1) amortised.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import Final

from penstock.kernel.job import Job

_DEAD_ENTRIES_MIN: Final = 64
"""Below this many dead entries it is not worth while to make the columns again."""


class Lives:
    __slots__ = ("_dead", "_ids", "_jobs", "_lives")

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        """`jobs` are those of the tenant by id: what is in there is alive."""
        self._jobs = jobs
        self._lives = array("q")
        self._ids: list[str] = []
        self._dead = 0

    def __len__(self) -> int:
        return len(self._lives)

    @property
    def last(self) -> int:
        """The newest life, or 0."""
        return self._lives[-1] if self._lives else 0

    def add(self, life: int, id: str) -> None:
        """A life begins, or one that had left is back: its batch was taken back."""
        lives = self._lives
        if not lives or life > lives[-1]:
            lives.append(life)
            self._ids.append(id)
            return
        place = bisect_left(lives, life)
        if lives[place] == life:
            self._dead -= 1
            self._ids[place] = id
        else:
            lives.insert(place, life)
            self._ids.insert(place, id)

    def remove(self, life: int) -> None:
        """It has left, or never was. One that is not here belongs to a part of a queue."""
        lives = self._lives
        if lives and lives[-1] == life:
            lives.pop()
            self._ids.pop()
            return
        place = bisect_left(lives, life)
        if place == len(lives) or lives[place] != life:
            return
        self._dead += 1
        if self._dead > _DEAD_ENTRIES_MIN and self._dead * 2 > len(lives):
            self.gather(job for job in map(self._jobs.get, self._ids) if job is not None)

    def gather(self, jobs: Iterable[Job]) -> None:
        """Begins anew with these, which are all there are."""
        found = sorted({job.life: job.id for job in jobs}.items())
        self._lives = array("q", [life for life, _ in found])
        self._ids = [id for _, id in found]
        self._dead = 0

    def after(self, life: int, until: int, count: int) -> tuple[list[Job], int | None]:
        """The jobs among the first so many entries after a life, up to another and including it.

        Beside them the life up to which that looked; None: there is nothing behind it.
        """
        lives = self._lives
        first, end = bisect_right(lives, life), bisect_right(lives, until)
        last = min(first + count, end)
        find = self._jobs.get
        found = [
            job
            for place in range(first, last)
            if (job := find(self._ids[place])) is not None and job.life == lives[place]
        ]
        return found, lives[last - 1] if last < end else None
