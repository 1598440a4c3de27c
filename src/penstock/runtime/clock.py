"""The real clock. Together with the rest of `runtime/`, the only code that may ask the machine."""

from __future__ import annotations

import asyncio
import time

# The monotonic clock of Linux stands still while the machine sleeps; a lease does not.
_ELAPSED_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The `Clock` of production."""

    def now(self) -> float:
        return time.time()

    def elapsed(self) -> float:
        return time.clock_gettime(_ELAPSED_CLOCK)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def block(seconds: float) -> None:
    """Stops the thread, for those that have nothing else to do; never the event loop's."""
    time.sleep(seconds)
