"""Commit time: this machine's clock, corrected by the store's and never going back.

The store stamps what is written with its own time. If we wrote something between `sent` and
`answered` and the store says `modified`, then its clock minus ours lies between `modified -
answered` and `modified - sent`, plus the grain of its stamps (whole seconds on S3). Only what lies
outside of that interval is an error for certain, so only that much is corrected; more than the
allowed skew means that this machine should not write at all.
"""

from __future__ import annotations

import contextlib
from typing import Final

from penstock.engines.ledger.names import PROBES
from penstock.errors import ClockSkew, StoreDenied
from penstock.kernel.settings import Settings
from penstock.ports.store import ObjectStore, Overwrite
from penstock.runtime.services import Services

CALIBRATION_SECONDS: Final = 300.0
"""How long a comparison with the store is trusted."""
_WHOLE_SECOND: Final = 1.0


class CommitClock:
    def __init__(self, store: ObjectStore, services: Services) -> None:
        self._store = store
        self._services = services
        self._clock = services.clock
        self._offset_seconds = 0.0
        self._compared_at: float | None = None

    def now(self) -> float:
        return self._clock.now() + self._offset_seconds

    def elapsed(self) -> float:
        return self._clock.elapsed()

    @property
    def is_due(self) -> bool:
        """Whether the last comparison is too old."""
        if self._compared_at is None:
            return True
        return self._clock.elapsed() - self._compared_at > CALIBRATION_SECONDS

    async def calibrate(self, limit_seconds: float) -> None:
        """Asks the store what time it is, by what it says of an object put just now."""
        key = PROBES + self._services.new_secret()
        sent = self._clock.now()
        written = await self._store.put(key, b"what time is it", Overwrite())
        answered = self._clock.now()
        modified_at = written.modified_at
        if modified_at is None:
            modified_at = (await self._store.get(key)).modified_at
        await self._store.delete(key)
        self.compare(sent, answered, modified_at, limit_seconds)

    async def calibrate_if_allowed(self, settings: Settings) -> None:
        """A reader may lack the right to write; should it write after all, it is told then."""
        with contextlib.suppress(StoreDenied):
            await self.calibrate(settings.clock_skew_seconds)

    def compare(
        self, sent: float, answered: float, modified_at: float, limit_seconds: float
    ) -> None:
        """Takes in one comparison; raises `ClockSkew` when the clocks are too far apart."""
        grain = _WHOLE_SECOND if modified_at == int(modified_at) else 0.0
        least, most = modified_at - answered, modified_at + grain - sent
        # A clock set back in between gives an impossible interval; nothing follows from it.
        offset = 0.0
        if least > 0 and most >= least:
            offset = least
        elif most < 0 and most >= least:
            offset = most
        if abs(offset) > limit_seconds:
            raise ClockSkew(-offset, limit_seconds)
        self._offset_seconds = offset
        self._compared_at = self._clock.elapsed()

    def commit_time(self, previous: float) -> float:
        return max(round(self.now(), 6), previous)
