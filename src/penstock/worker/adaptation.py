"""Watching a worker at work, and setting its room by what was seen."""

from __future__ import annotations

import logging
from statistics import median
from typing import Final

from penstock.ports.clock import Clock
from penstock.worker.adapting import ENDED_MIN, Bounds, Limit, Seen, adapted
from penstock.worker.room import Room

logger = logging.getLogger(__name__)

SAMPLE_SECONDS: Final = 0.05
ROUND_SAMPLES: Final = 20
ROUND_SAMPLES_MAX: Final = 200
"""A round goes on for longer, up to this, until enough attempts have ended to judge by."""


class Adaptation:
    """Looks at the worker now and then, and never at a job: what is quick stays so."""

    def __init__(self, room: Room, bounds: Bounds, clock: Clock) -> None:
        self._room = room
        self._bounds = bounds
        self._clock = clock
        self._limit = Limit(room.limit)

    async def run(self) -> None:
        while True:
            self.decide(await self._round())

    def decide(self, seen: Seen) -> None:
        self._limit = adapted(self._limit, seen, self._bounds)
        if self._limit.jobs != self._room.limit:
            logger.debug("%d jobs at once, from %d on", self._limit.jobs, self._room.limit)
            self._room.resize(self._limit.jobs)

    async def _round(self) -> Seen:
        began_at, began_with = self._clock.elapsed(), self._room.ended
        lags: list[float] = []
        was_full = False
        while len(lags) < ROUND_SAMPLES_MAX:
            sampled_at = self._clock.elapsed()
            await self._clock.sleep(SAMPLE_SECONDS)
            lags.append(max(0.0, self._clock.elapsed() - sampled_at - SAMPLE_SECONDS))
            was_full = was_full or self._room.free == 0
            if len(lags) >= ROUND_SAMPLES and self._room.ended - began_with >= ENDED_MIN:
                break
        seconds = self._clock.elapsed() - began_at
        # The median, since a pause of the machine is not the handlers' doing.
        return Seen(seconds, self._room.ended - began_with, median(lags), was_full)
