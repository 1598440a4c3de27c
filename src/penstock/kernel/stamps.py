"""Commit time: it never goes back, and never stands still for long.

A clock that was ahead, for one commit, must not stop the time of the queue until everybody's clock
gets there: delays, leases and retries would all wait for it. So a commit says two things, its time
`at` and the `clock` of its writer. The next one goes on from that time by what has elapsed between
the two clocks, a little slower, until the distance is gone:

    at = max(clock, previous.at + 0.9 · max(0, clock - previous.clock))

Delays, leases and retries thus pass at nine tenths of real time at worst. Absolute times come early
by the distance, since by the queue's time they have come.

Clocks of several writers differ a little. Were each to go on from the other's, every change of
turns would count the difference between them as time that has passed. Hence a clock that is behind
by less than clocks may differ is taken for the one before it: only one further behind was set back.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

PACE: Final = 0.9
"""How fast commit time goes while it is ahead of the clocks."""
SET_BACK_SECONDS: Final = 5.0
"""Calibrated clocks differ by less: an allowed jump, a slow answer, a store's whole seconds."""
AHEAD_SECONDS_MAX: Final = 60.0
"""Whoever opens a queue whose time is further ahead is warned."""


class Stamp(Struct, frozen=True, gc=False):
    at: float
    clock: float

    @property
    def lagging_clock(self) -> float | None:
        """The clock, where it is not in step: what is stored beside the time."""
        return None if self.clock == self.at else self.clock

    @property
    def ahead_seconds(self) -> float:
        """How far commit time was from the clock of its writer."""
        return self.at - self.clock

    def was_set_back_since(self, before: Stamp) -> bool:
        """Whether the clock was set back since: time stands still until that is noted."""
        return self.clock < before.clock

    def clock_at(self, at: float) -> float:
        """What clocks will say when commit time has come to this, if nothing is written before."""
        return min(at, self.clock + max(0.0, at - self.at) / PACE)


def stamp_of(at: float, lagging_clock: float | None) -> Stamp:
    """From what is stored."""
    return Stamp(at, at if lagging_clock is None else lagging_clock)


THE_BEGINNING: Final = Stamp(0.0, 0.0)


def next_stamp(before: Stamp, clock: float) -> Stamp:
    """The stamp of a commit that is made now, by the writer's clock, after another."""
    clock = round(clock, 6)
    if before.at == before.clock <= clock:
        # As nearly always, nobody is ahead: what follows would say the same.
        return Stamp(clock, clock)
    if before.clock - SET_BACK_SECONDS < clock < before.clock:
        clock = before.clock
    elapsed = max(0.0, clock - before.clock)
    return Stamp(max(clock, round(before.at + PACE * elapsed, 6)), clock)
