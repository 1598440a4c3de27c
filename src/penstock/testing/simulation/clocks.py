"""What each simulated machine takes for the time, and the rest of what a seed gives to it."""

from __future__ import annotations

import random  # noqa: TID251 - the seeded generator is handed in; only its type is needed

from penstock.runtime.services import Services
from penstock.testing.simulation.loop import SimulatedLoop

EPOCH_SECONDS = 1_800_000_000.0
"""When all simulations begin."""


class SimulatedClock:
    """Virtual time, seen through a clock that is off, runs too fast or slow, or is set wrongly."""

    def __init__(self, loop: SimulatedLoop, skew_seconds: float = 0.0, drift: float = 0.0) -> None:
        self._loop = loop
        self._pace = 1.0 + drift
        self._skew_seconds = skew_seconds
        self._in_step_at = 0.0

    def now(self) -> float:
        drifted = (self._loop.time() - self._in_step_at) * (self._pace - 1.0)
        return EPOCH_SECONDS + self._loop.time() + drifted + self._skew_seconds

    def elapsed(self) -> float:
        return self._loop.time() * self._pace

    async def sleep(self, seconds: float) -> None:
        future = self._loop.create_future()
        timer = self._loop.call_later(max(seconds, 0.0) / self._pace, _wake, future)
        try:
            await future
        finally:
            timer.cancel()

    def set(self, skew_seconds: float) -> None:
        """Somebody set the wall clock; what is elapsed goes on as before."""
        self._skew_seconds = skew_seconds
        self.undrift()

    def undrift(self) -> None:
        """What it has drifted is corrected; it goes on drifting."""
        self._in_step_at = self._loop.time()


def services(clock: SimulatedClock, rng: random.Random) -> Services:
    def new_id() -> str:
        return f"{int(clock.now() * 1_000):012x}-{rng.getrandbits(64):016x}"

    return Services(
        clock=clock,
        luck=rng.random,
        new_secret=lambda: f"{rng.getrandbits(128):032x}",
        new_id=new_id,
    )


def _wake(future: object) -> None:
    if not future.done():  # type: ignore[attr-defined]  # a future of the simulated loop
        future.set_result(None)  # type: ignore[attr-defined]
