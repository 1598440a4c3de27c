"""One tenant's part of a queue: its jobs, what is ready, its keys, its counters.

Everything that a tenant can see is in here and nothing else is, so nothing can cross.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, TypeAlias

from msgspec import Struct

from penstock.kernel.job import Job, State
from penstock.kernel.lanes import Lanes
from penstock.kernel.lives import Lives
from penstock.kernel.segments import Head

Scope: TypeAlias = tuple[str, str, str]
"""Where a key is unique: (queue, type, key)."""


class Hold(Struct, frozen=True, gc=False):
    """A key that is taken: by which job, and until when at the least."""

    id: str
    life: int
    until: float | None = None


def hold_of(job: Job) -> Hold:
    return Hold(job.id, job.life, job.key_until)


class QueueCounts:
    """How many jobs one queue ever had, by the state they are in or left in."""

    __slots__ = ("left", "now", "view")

    def __init__(self) -> None:
        self.now: defaultdict[State, int] = defaultdict(int)
        """Jobs of this queue by state, those that have left included."""
        self.left: defaultdict[State, int] = defaultdict(int)
        """How many of those are no longer in the live state."""
        self.view: Any = None
        """What whoever looked has made of the queue; None once something of it has changed."""

    def count_left(self, state: State, change: int) -> None:
        """It left the live state, and stays in the state that it was in."""
        self.now[state] += change
        self.left[state] += change

    def live(self, state: State) -> int:
        return self.now[state] - self.left[state]


class Tenancy:
    __slots__ = ("counts", "heads", "jobs", "keys", "lanes", "lives", "name", "scheduled")

    def __init__(self, name: str) -> None:
        self.name = name
        self.jobs: dict[str, Job] = {}
        self.lives = Lives(self.jobs)
        """The same in the order in which they began; of a part of a queue, what began there."""
        self.lanes = Lanes(self.is_current)
        """Ready jobs, and the heads of segments that stand for jobs not yet admitted."""
        self.scheduled: dict[str, dict[str, int]] = {}
        """How many jobs are not yet due, by queue and type."""
        self.heads: dict[str, Head] = {}
        self.keys: dict[Scope, Hold] = {}
        self.counts: dict[str, QueueCounts] = {}

    @property
    def paused(self) -> set[str]:
        return self.lanes.paused

    def is_current(self, pending: Job | Head) -> bool:
        id = pending.id
        return self.jobs.get(id) is pending or (bool(self.heads) and self.heads.get(id) is pending)

    def let_go(self, job: Job) -> None:
        del self.jobs[job.id]
        self.lives.remove(job.life)

    def queue_counts(self, queue: str) -> QueueCounts:
        counts = self.counts.get(queue)
        if counts is None:
            counts = self.counts[queue] = QueueCounts()
        return counts
