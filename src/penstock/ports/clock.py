"""The port to time. Everything that waits or asks the hour does it here, so tests can jump."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Wall-clock time in seconds since the epoch; may jump."""
        ...

    def elapsed(self) -> float:
        """Seconds on a clock that never goes back and runs on while the machine is suspended."""
        ...

    async def sleep(self, seconds: float) -> None: ...
