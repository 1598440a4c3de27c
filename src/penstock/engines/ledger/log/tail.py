"""The part of the log after the newest checkpoint, weighed: when is the next checkpoint due?

Whoever's commit carries the tail over a multiple of the limit makes the checkpoint. Everybody sees
the same commits, so one process is elected without a word; should it die before it is done, the
next multiple elects another.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from penstock.kernel.state import QueueState

TAIL_BYTES_MIN: Final = 16 * 1024 * 1024
TAIL_OBJECTS_MAX: Final = 4_096


class Tail:
    def __init__(
        self, bytes_min: int = TAIL_BYTES_MIN, objects_max: int = TAIL_OBJECTS_MAX
    ) -> None:
        self._bytes_min = bytes_min
        self._objects_max = objects_max
        self._sizes: deque[tuple[int, int]] = deque()
        self._bytes = 0

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def add(self, commit: int, size_bytes: int, checkpoint_commit: int) -> None:
        """Another commit; those that a known checkpoint covers are let go."""
        self._sizes.append((commit, size_bytes))
        self._bytes += size_bytes
        while self._sizes and self._sizes[0][0] <= checkpoint_commit:
            self._bytes -= self._sizes.popleft()[1]

    def weight(self, state: QueueState) -> int:
        """How often the tail has reached the limit."""
        by_bytes = self._bytes // max(state.checkpoint_bytes, self._bytes_min)
        return max(by_bytes, len(self._sizes) // self._objects_max)

    def has_crossed(self, weight_before: int, state: QueueState) -> bool:
        return self.weight(state) > weight_before
