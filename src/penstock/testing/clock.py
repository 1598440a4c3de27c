"""A clock that tests move by hand: an hour passes in no time, and not a second does unasked.

    clock = FakeClock()
    async with penstock.open("memory://", services=Services(clock=clock)) as queue:
        [job] = await queue.claim(lease_seconds=30)
        await clock.advance(60)

`now` stands still until the test advances it. What sleeps on the clock is woken when the time
has come, in order. `elapsed` also runs on with real time and so do sleeps, so that a wait which
nobody cuts short still ends. With `autojump`, who sleeps advances the clock and goes on at once.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Final

from penstock.runtime.clock import SystemClock

EPOCH: Final = 1_700_000_000.0
"""When tests begin: some day in November 2023."""
_TURNS: Final = 20
"""How often others get to run between two steps; enough for a few awaits in a row."""


class FakeClock:
    """A `penstock.ports.clock.Clock`, for the test's event loop and those in it."""

    def __init__(self, now: float = EPOCH, *, autojump: bool = False) -> None:
        self._jumped_seconds = 0.0
        self._set(now)
        self._autojump = autojump
        self._real = SystemClock()
        self._started_at = self._real.elapsed()
        self._flows_since: float | None = None
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def __repr__(self) -> str:
        return f"<FakeClock {self.now():.6f}, {len(self._sleepers)} asleep>"

    def now(self) -> float:
        if self._flows_since is None:
            return self._now
        return self._now + self._real.elapsed() - self._flows_since

    def elapsed(self) -> float:
        return self._jumped_seconds + self._real.elapsed() - self._started_at

    async def sleep(self, seconds: float) -> None:
        if self._autojump:
            self.jump(seconds)
            await turn()
            return
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        sleeper = (self._jumped_seconds + seconds, woken)
        timer = loop.call_later(seconds, _wake, woken)
        self._sleepers.append(sleeper)
        try:
            await woken
        finally:
            timer.cancel()
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)

    def jump(self, seconds: float) -> None:
        """Moves the time, and lets nobody run."""
        assert seconds >= 0, "time only goes on"
        self._jumped_seconds += seconds

    def set_ahead(self, seconds: float) -> None:
        """Somebody sets the wall clock, ahead or back; what is elapsed goes on as before."""
        self._set(self._now + seconds)

    async def advance(self, seconds: float) -> None:
        """Lets that much time pass: sleepers wake in order, each at its own time, and run."""
        await turns()
        until = self._jumped_seconds + seconds
        while (due := self._next_due()) is not None and due[0] <= until:
            self.jump(max(0.0, due[0] - self._jumped_seconds))
            self._sleepers.remove(due)
            _wake_in_its_loop(due[1])
            await turns()
        self.jump(max(0.0, until - self._jumped_seconds))
        await turns()

    async def advance_to(self, at: float) -> None:
        """Advances until `now` is exactly this."""
        await self.advance(at - self.now())
        self._set(at)

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Within it `now` runs with real time, for what waits for the hour by itself."""
        self._flows_since = self._real.elapsed()
        try:
            yield
        finally:
            now, self._flows_since = self.now(), None
            self._set(now)

    @property
    def _now(self) -> float:
        # Jumps are summed up on their own: beside a number as large as the time, many small ones
        # would not add up.
        return self._set_to + (self._jumped_seconds - self._set_after_seconds)

    def _set(self, now: float) -> None:
        self._set_to, self._set_after_seconds = now, self._jumped_seconds

    def _next_due(self) -> tuple[float, asyncio.Future[None]] | None:
        asleep = [sleeper for sleeper in self._sleepers if not sleeper[1].done()]
        return min(asleep, key=lambda sleeper: sleeper[0], default=None)


@types.coroutine
def turn() -> Generator[None, None, None]:
    """Lets everybody else run once."""
    yield


async def turns(count: int = _TURNS) -> None:
    for _ in range(count):
        await turn()


def _wake_in_its_loop(sleeper: asyncio.Future[None]) -> None:
    """A test and the server in it may have a loop each."""
    loop = sleeper.get_loop()
    if loop is asyncio.get_running_loop():
        _wake(sleeper)
    elif not loop.is_closed():
        loop.call_soon_threadsafe(_wake, sleeper)


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
