"""Saying that the store is away: at most once a minute, and once when it is back."""

from __future__ import annotations

import logging
from typing import Final

from penstock.ports.clock import Clock

COMPLAINT_SECONDS: Final = 60.0


class Complaints:
    """Shared by everything of one owner that would complain about the same trouble."""

    def __init__(self, logger: logging.Logger, clock: Clock) -> None:
        self._logger = logger
        self._clock = clock
        self._said_at = float("-inf")
        self._is_open = False
        """Whether the last that was said is trouble."""

    def trouble(self, what: str, error: Exception) -> None:
        now = self._clock.elapsed()
        if now - self._said_at >= COMPLAINT_SECONDS:
            self._said_at = now
            self._is_open = True
            words = str(error) or "no answer in time"
            self._logger.warning("%s failed and is tried again: %s", what, words)

    def fine(self) -> None:
        if self._is_open:
            self._is_open = False
            self._logger.warning("the store answers again")
