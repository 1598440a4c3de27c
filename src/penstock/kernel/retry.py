"""When a failed attempt is tried again."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import force_setattr

from penstock.errors import InvalidJob
from penstock.kernel.plain import plain_number, plain_seconds


class RetryPolicy(Struct, frozen=True, gc=False, omit_defaults=True):
    """Exponential backoff: `initial × multiplier^(failures - 1)`, capped, spread by the jitter."""

    initial_seconds: float = 1.0
    multiplier: float = 2.0
    max_seconds: float = 60.0
    jitter: float = 0.25

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            plain = plain_seconds if name.endswith("_seconds") else plain_number
            # Whole numbers are stored as they will be read, so that all have the same bytes.
            force_setattr(self, name, float(plain(f"retry.{name}", getattr(self, name))))
        if self.multiplier < 1:
            raise InvalidJob("retry.multiplier", self.multiplier, "it must be 1 or more")
        if self.max_seconds < self.initial_seconds:
            raise InvalidJob("retry.max_seconds", self.max_seconds, "less than initial_seconds")
        if not 0 <= self.jitter <= 1:
            raise InvalidJob("retry.jitter", self.jitter, "it must be between 0 and 1")

    def delay_seconds(self, failures: int, luck: float) -> float:
        """The wait after that many failures; `luck` in [0, 1) picks a point within the jitter."""
        try:
            delay = min(self.initial_seconds * self.multiplier ** (failures - 1), self.max_seconds)
        except OverflowError:
            delay = self.max_seconds if self.initial_seconds else 0.0
        return delay * (1 + self.jitter * (2 * luck - 1))


DEFAULT_RETRY: Final = RetryPolicy()
