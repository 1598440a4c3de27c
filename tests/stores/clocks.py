"""Clocks that tests move."""

from __future__ import annotations

import asyncio


class JumpingClock:
    """Sleeping takes no time: the clock jumps. Counts what was slept."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.seconds = now
        self.slept: list[float] = []

    def now(self) -> float:
        return self.seconds

    def elapsed(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds


class HandClock:
    """Sleepers wait until the test has advanced the clock far enough."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.seconds = now
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def now(self) -> float:
        return self.seconds

    def elapsed(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        self._sleepers.append((self.seconds + seconds, woken))
        await woken.wait()

    async def advance(self, seconds: float) -> None:
        """Wakes whoever is due, in order, and lets them run."""
        await _others_run()
        self.seconds += seconds
        for due_at, woken in sorted(self._sleepers, key=lambda sleeper: sleeper[0]):
            if due_at <= self.seconds:
                woken.set()
                await _others_run()
        self._sleepers = [s for s in self._sleepers if not s[1].is_set()]


async def _others_run() -> None:
    for _ in range(10):
        await asyncio.sleep(0)
