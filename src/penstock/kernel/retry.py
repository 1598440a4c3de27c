"""When a failed attempt is tried again."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from penstock.errors import InvalidJob


class RetryPolicy(Struct, frozen=True, gc=False, omit_defaults=True):
    """Exponential backoff: `initial × multiplier^(failures - 1)`, capped, spread by the jitter."""

    initial_seconds: float = 1.0
    multiplier: float = 2.0
    max_seconds: float = 60.0
    jitter: float = 0.25

    def __post_init__(self) -> None:
        if self.initial_seconds < 0:
            raise InvalidJob("retry.initial_seconds", self.initial_seconds, "it must be 0 or more")
        if self.multiplier < 1:
            raise InvalidJob("retry.multiplier", self.multiplier, "it must be 1 or more")
        if self.max_seconds < self.initial_seconds:
            raise InvalidJob("retry.max_seconds", self.max_seconds, "less than initial_seconds")
        if not 0 <= self.jitter <= 1:
            raise InvalidJob("retry.jitter", self.jitter, "it must be between 0 and 1")

    def delay_seconds(self, failures: int, luck: float) -> float:
        """The wait after that many failures; `luck` in [0, 1) picks a point within the jitter."""
        growth = min(failures - 1, _DOUBLINGS_MAX)
        delay = min(self.initial_seconds * self.multiplier**growth, self.max_seconds)
        return delay * (1 + self.jitter * (2 * luck - 1))


# Far beyond any cap, and small enough that the power can't overflow a float.
_DOUBLINGS_MAX: Final = 64

DEFAULT_RETRY: Final = RetryPolicy()
