"""The clock that commits go by: this machine's, corrected by the store's.

The store stamps what is written with its own time. If we wrote something between `sent` and
`answered` and the store says `modified`, then its clock minus ours lies between `modified -
answered` and `modified - sent`, plus the grain of its stamps (whole seconds on S3). Only what lies
outside of that interval is an error for certain, so only that much is corrected; more than the
allowed skew means that this machine should not write at all.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from penstock.engines.names import PROBES
from penstock.errors import ClockSkew
from penstock.kernel.stamps import AHEAD_SECONDS_MAX, Stamp, next_stamp
from penstock.ports.store import ObjectStore, Overwrite
from penstock.runtime.services import Services

logger = logging.getLogger(__name__)

CALIBRATION_SECONDS: Final = 300.0
"""How long a comparison with the store is trusted."""
JUMP_SECONDS_MAX: Final = 2.0
"""How far the clock may be from what has elapsed before it is taken to have been set."""
_WHOLE_SECOND: Final = 1.0
_TICK_SECONDS: Final = 0.01
"""A file is stamped with the time of the kernel's last tick."""
_ANSWER_SECONDS_MAX: Final = 2.0
_ASKED_MAX: Final = 3


def warn_of_time(name: str, stamp: Stamp) -> None:
    """Tells whoever opens a queue that a clock which was ahead has written to it."""
    if stamp.ahead_seconds > AHEAD_SECONDS_MAX:
        logger.warning(
            "%s: its time is %.0f s ahead, since a clock that was ahead has written to it; until "
            "that is made up for, delays and leases take a ninth longer, and what is to run at a "
            "given time (run_at) comes early by that distance",
            name,
            stamp.ahead_seconds,
        )


class CommitClock:
    def __init__(self, store: ObjectStore, services: Services) -> None:
        self._store = store
        self._services = services
        self._clock = services.clock
        self._offset_seconds = 0.0
        self._compared_at: float | None = None
        self._compared_now = 0.0
        self._comparing = asyncio.Lock()
        """So that those who come while somebody asks do not ask again."""

    def now(self) -> float:
        now = self._clock.now() + self._offset_seconds
        if self._compared_at is None:
            return now
        # A clock set forward would kill every lease, and one set back would let time pass twice for
        # those who commit after it. Until it is compared again it is not believed.
        expected = self._compared_now + self._clock.elapsed() - self._compared_at
        return min(max(now, expected - JUMP_SECONDS_MAX), expected + JUMP_SECONDS_MAX)

    @property
    def skew_seconds(self) -> float:
        """How far this machine's clock is from the store's, as far as that is certain."""
        return -self._offset_seconds

    def elapsed(self) -> float:
        return self._clock.elapsed()

    @property
    def is_due(self) -> bool:
        """Whether the last comparison is too old."""
        if self._compared_at is None:
            return True
        return self._clock.elapsed() - self._compared_at > CALIBRATION_SECONDS

    async def ready_to_write(self, limit_seconds: float) -> None:
        """Compares the clocks if that is due, which it is before the first write.

        Refuses with `ClockSkew` to write with a clock that is too far from the store's.
        """
        if self.is_due:
            async with self._comparing:
                if self.is_due:
                    await self.calibrate()
                    self.require_close(limit_seconds)

    async def calibrate(self) -> None:
        """Asks the store what time it is, by what it says of an object put just now.

        A slow answer, or one that was slept over, says little: then it asks again.
        """
        for _ in range(_ASKED_MAX):
            started_at = self._clock.elapsed()
            await self._ask()
            if self._clock.elapsed() - started_at <= _ANSWER_SECONDS_MAX:
                return

    async def _ask(self) -> None:
        key = PROBES + self._services.new_secret()
        sent = self._clock.now()
        written = await self._store.put(key, b"what time is it", Overwrite())
        answered = self._clock.now()
        modified_at = written.modified_at
        if modified_at is None:
            modified_at = (await self._store.get(key)).modified_at
        await self._store.delete(key)
        self.compare(sent, answered, modified_at)

    def require_close(self, limit_seconds: float) -> None:
        """Raises `ClockSkew` when the last comparison found the clocks too far apart."""
        if abs(self._offset_seconds) > limit_seconds:
            self._compared_at = None
            raise ClockSkew(self.skew_seconds, limit_seconds)

    def compare(self, sent: float, answered: float, modified_at: float) -> None:
        """Takes in one comparison."""
        grain = _WHOLE_SECOND if modified_at == int(modified_at) else _TICK_SECONDS
        least, most = modified_at - answered, modified_at + grain - sent
        # A clock set back in between gives an impossible interval; nothing follows from it.
        self._offset_seconds = 0.0
        if least > 0 and most >= least:
            self._offset_seconds = least
        elif most < 0 and most >= least:
            self._offset_seconds = most
        self._compared_at = self._clock.elapsed()
        self._compared_now = self._clock.now() + self._offset_seconds

    def stamp(self, previous: Stamp) -> Stamp:
        return next_stamp(previous, self.now())
