"""How long to wait before trying again: the one implementation of it."""

from __future__ import annotations

import random
from collections.abc import Callable


def system_luck() -> float:
    """A number in [0, 1) that nobody can foresee."""
    return random.random()


class Backoff:
    """Waits that grow by `multiplier` up to `max_seconds`, each spread by ± `jitter` of itself.

    `luck` gives numbers in [0, 1); tests and the simulator pass their own.
    """

    def __init__(
        self,
        initial_seconds: float = 0.1,
        multiplier: float = 2.0,
        max_seconds: float = 5.0,
        jitter: float = 0.25,
        luck: Callable[[], float] = system_luck,
    ) -> None:
        if initial_seconds <= 0 or max_seconds < initial_seconds:
            raise ValueError("a backoff needs 0 < initial_seconds <= max_seconds")
        if multiplier < 1:
            raise ValueError("a backoff's multiplier is at least 1")
        if not 0 <= jitter <= 1:
            raise ValueError("a backoff's jitter is between 0 and 1")
        self._initial_seconds = initial_seconds
        self._multiplier = multiplier
        self._max_seconds = max_seconds
        self._jitter = jitter
        self._luck = luck
        self._seconds = initial_seconds

    def next_seconds(self) -> float:
        """The wait before the next try; the one after it will be longer."""
        seconds = self._seconds
        self._seconds = min(seconds * self._multiplier, self._max_seconds)
        return seconds * (1 + self._jitter * (2 * self._luck() - 1))

    def reset(self) -> None:
        """Something worked: start again from `initial_seconds`."""
        self._seconds = self._initial_seconds
