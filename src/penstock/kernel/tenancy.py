"""One tenant's part of a queue: its jobs, what is ready, its keys, its counters.

Everything that a tenant can see is in here and nothing else is, so nothing can cross.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from heapq import merge
from typing import TypeAlias

from msgspec import Struct

from penstock.kernel.job import Job, State
from penstock.kernel.order import Entry, Ranking
from penstock.kernel.segments import Head

Scope: TypeAlias = tuple[str, str, str]
"""Where a key is unique: (queue, type, key)."""


class Hold(Struct, frozen=True, gc=False):
    """A key that is taken: by which job, and until when at the least."""

    id: str
    life: int
    until: float | None = None


class QueueCounts:
    """How many jobs one queue ever had, by the state they are in or left in."""

    __slots__ = ("left", "now")

    def __init__(self) -> None:
        self.now: defaultdict[State, int] = defaultdict(int)
        """Jobs of this queue by state, those that have left included."""
        self.left: defaultdict[State, int] = defaultdict(int)
        """How many of those are no longer in the live state."""

    def live(self, state: State) -> int:
        return self.now[state] - self.left[state]


class Tenancy:
    __slots__ = ("counts", "heads", "jobs", "keys", "lanes", "name", "paused")

    def __init__(self, name: str) -> None:
        self.name = name
        self.jobs: dict[str, Job] = {}
        self.lanes: dict[str, dict[str, Ranking]] = {}
        """Ready jobs by queue and type, each ranked (priority, run_at, life, row), and the heads of
        segments that stand for jobs not yet admitted."""
        self.heads: dict[str, Head] = {}
        self.keys: dict[Scope, Hold] = {}
        self.paused: set[str] = set()
        self.counts: dict[str, QueueCounts] = {}

    def is_current(self, pending: Job | Head) -> bool:
        id = pending.id
        return self.jobs.get(id) is pending or (bool(self.heads) and self.heads.get(id) is pending)

    def lane(self, queue: str, type: str) -> Ranking:
        lanes = self.lanes.get(queue)
        if lanes is None:
            lanes = self.lanes[queue] = {}
        lane = lanes.get(type)
        if lane is None:
            lane = lanes[type] = Ranking(self.is_current)
        return lane

    def open_lanes(
        self, queues: Iterable[str] | None, types: Iterable[str] | None
    ) -> Iterator[Ranking]:
        """The lanes a claim may take from: of these queues and types, and not paused."""
        for queue in self.lanes if queues is None else dict.fromkeys(queues):
            if queue in self.paused:
                continue
            lanes = self.lanes.get(queue, {})
            for type in lanes if types is None else dict.fromkeys(types):
                lane = lanes.get(type)
                if lane:
                    yield lane

    def ready(self, queues: Iterable[str] | None, types: Iterable[str] | None) -> Iterator[Entry]:
        """Ready entries of all those lanes in one global order."""
        lanes = list(self.open_lanes(queues, types))
        if len(lanes) == 1:
            return lanes[0].in_order()
        return merge(*(lane.in_order() for lane in lanes))

    def queue_counts(self, queue: str) -> QueueCounts:
        counts = self.counts.get(queue)
        if counts is None:
            counts = self.counts[queue] = QueueCounts()
        return counts
