"""Where events stand when there is no common count: by the time, in nanoseconds.

The last three digits are drawn by lot, so that two processes hardly ever meet. A position is above
all that this process has given or seen, and above everything in the object that its event goes
into; so of one job whoever holds it later has the higher fence, whatever the clocks say. Of
different jobs they are in order as far as the clocks are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

EVENTS_PER_TURN_MAX: Final = 10
"""One command on one job: its lease's end, and what was asked for."""
_LOTS: Final = 1_000
_NANOSECONDS: Final = 1_000_000_000


class Positions:
    def __init__(self, luck: Callable[[], float]) -> None:
        self._luck = luck
        self._last = 0

    def next(self, at: float, above: int) -> int:
        lot = int(self._luck() * _LOTS)
        # Also where another process is ahead: of all that follow it, no two count in step.
        floor = max(self._last + EVENTS_PER_TURN_MAX, above + 1) + lot
        self._last = max(round(at * 1_000_000) * _LOTS + lot, floor)
        return self._last

    @property
    def last(self) -> int:
        return self._last


def time_of(position: int) -> float:
    """About when."""
    return position / _NANOSECONDS


def position_at(at: float) -> int:
    """Below every position of later."""
    return int(at * 1_000_000) * _LOTS


def earlier(position: int, seconds: float) -> int:
    """The position of so much earlier."""
    return max(position - round(seconds * _NANOSECONDS), 0)
