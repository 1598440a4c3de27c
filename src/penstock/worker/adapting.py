"""How many jobs at once: the rule by which a worker with `concurrency="auto"` finds out.

It climbs. While there is more to do than there is room for, the limit is raised by a step; the step
was worth it if the throughput has grown with the limit, by a fair share of what it could have.
Otherwise the step is taken back and, after a rest, tried again: the world may have changed. A loop
that lags is the sign that handlers keep each other from running, and lowers the limit at once.

Pure: what was seen goes in, the next limit comes out.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

LAG_SECONDS_MAX: Final = 0.1
"""By how much the event loop may be late."""
NARROWING: Final = 0.75
WIDENING: Final = 0.25
WIDENING_MIN: Final = 4
GAIN_MIN: Final = 0.25
"""What part of the widening has to show in the throughput: all of it would, if nothing else held
the jobs up."""
ENDED_MIN: Final = 8
"""With fewer ended attempts nothing can be said about throughput."""
REST_ROUNDS: Final = 10


class Bounds(Struct, frozen=True):
    floor: int
    ceiling: int

    def within(self, limit: float) -> int:
        return max(self.floor, min(self.ceiling, int(limit)))


class Seen(Struct, frozen=True):
    """What happened since the last decision."""

    seconds: float
    ended: int
    lag_seconds: float
    was_full: bool
    """There was a moment without room: the limit, and not the work, was what held it back."""

    @property
    def rate(self) -> float | None:
        """Attempts per second; None: too few to tell."""
        return self.ended / self.seconds if self.ended >= ENDED_MIN and self.seconds > 0 else None


class Limit(Struct, frozen=True):
    """How many jobs at once, and what the next decision has to remember."""

    jobs: int
    before: int | None = None
    """From where the last step went up; None: it did not."""
    rate_before: float | None = None
    rest: int = 0
    """For how many more rounds the limit stays as it is."""


def adapted(limit: Limit, seen: Seen, bounds: Bounds) -> Limit:
    """The limit from now on."""
    if seen.lag_seconds > LAG_SECONDS_MAX:
        return Limit(bounds.within(limit.jobs * NARROWING), rest=REST_ROUNDS)
    if limit.rest > 0:
        return replace(limit, rest=limit.rest - 1)
    if not seen.was_full:
        return Limit(limit.jobs)
    if limit.before is not None and not _was_worth_it(limit, limit.before, seen):
        return Limit(bounds.within(limit.before), rest=REST_ROUNDS)
    wider = bounds.within(limit.jobs + max(WIDENING_MIN, limit.jobs * WIDENING))
    return Limit(wider, limit.jobs if wider > limit.jobs else None, seen.rate)


def _was_worth_it(limit: Limit, before: int, seen: Seen) -> bool:
    if seen.rate is None or not limit.rate_before:
        # Handlers that take long tell nothing yet, and while the loop keeps up they do no harm.
        return True
    hoped = limit.jobs / before - 1
    return seen.rate >= limit.rate_before * (1 + GAIN_MIN * hoped)
