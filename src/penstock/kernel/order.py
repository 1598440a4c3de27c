"""Jobs kept in an order: a heap whose entries die in place and are let go lazily.

An entry is `(key…, job)`. It is alive while its job is the current version of that job; since every
transition makes a new version, whatever happens to a job kills its old entries without finding
them. The head of a segment stands for a job in the same way. Two rules keep this cheap: dead heads
are popped before anybody looks, and when more than half of the entries are dead the heap is built
again, so n live jobs cost at most 2n entries and each operation O(log n) amortised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Final, TypeAlias

from penstock.kernel.job import Job
from penstock.kernel.segments import Head

Entry: TypeAlias = tuple[Any, ...]

_DEAD_ENTRIES_MIN: Final = 64
"""Below this many dead entries a rebuild is not worth its while."""


class Ranking:
    __slots__ = ("_dead", "_heap", "_is_current")

    def __init__(self, is_current: Callable[[Job | Head], bool]) -> None:
        self._heap: list[Entry] = []
        self._dead = 0
        self._is_current = is_current

    def __len__(self) -> int:
        return len(self._heap) - self._dead

    def push(self, entry: Entry) -> None:
        heappush(self._heap, entry)

    def note_death(self) -> bool:
        """Some entry's job has changed; to be called once for each that dies. Whether any lives."""
        self._dead += 1
        if self._dead > _DEAD_ENTRIES_MIN and self._dead * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if self._is_current(entry[-1])]
            heapify(self._heap)
            self._dead = 0
        return len(self._heap) > self._dead

    def first(self) -> Entry | None:
        heap = self._heap
        if self._dead:
            while heap and not self._is_current(heap[0][-1]):
                heappop(heap)
                self._dead -= 1
        return heap[0] if heap else None

    def pop_first(self) -> Entry:
        """Takes the first entry out, although its job stays current; there must be one."""
        entry = self.first()
        assert entry is not None
        return heappop(self._heap)

    def in_order(self) -> Iterator[Entry]:
        """The live entries, first to last, without changing anything.

        Walks the heap from its root with a frontier of subtrees, so taking the first n costs
        O(n log n) whatever the size.
        """
        first = self.first()
        heap = self._heap
        size = len(heap)
        frontier: list[tuple[Entry, int]] = [] if first is None else [(first, 0)]
        while frontier:
            entry, index = heappop(frontier)
            if self._is_current(entry[-1]):
                yield entry
            child = 2 * index + 1
            if child < size:
                heappush(frontier, (heap[child], child))
                if child + 1 < size:
                    heappush(frontier, (heap[child + 1], child + 1))

    def unordered(self) -> Iterator[Entry]:
        return (entry for entry in self._heap if self._is_current(entry[-1]))
