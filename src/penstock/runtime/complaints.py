"""Saying that the store is away: at most once a minute, and once when it is back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Final

from penstock.ports.clock import Clock

COMPLAINT_SECONDS: Final = 60.0
PATIENCE_SECONDS: Final = 5.0
"""How long a call may take before its store is said not to answer."""


class Complaints:
    """Shared by everything of one owner that would complain about the same trouble."""

    def __init__(
        self,
        logger: logging.Logger,
        clock: Clock,
        tell: Callable[[Exception], None] | None = None,
    ) -> None:
        self._logger = logger
        self._tell = tell
        """Hears of trouble, as often as it is said."""
        self._clock = clock
        self._said_at = float("-inf")
        self._is_open = self._is_said = False

    def trouble(self, what: str, error: Exception) -> None:
        words = str(error) or "no answer in time"
        self._open(f"{what} failed and is tried again: {words}", error)

    def unanswered(self, what: str) -> None:
        words = f"{what} has had no answer for {PATIENCE_SECONDS:g} s"
        self._open(words, TimeoutError(words))

    def expect_answer(self, what: str) -> Patience:
        """Complains within the block, once it takes too long."""
        return Patience(self, what)

    @property
    def is_open(self) -> bool:
        """Whether there was trouble, and no answer since."""
        return self._is_open

    def fine(self) -> None:
        self._is_open = False
        if self._is_said:
            self._is_said = False
            self._logger.warning("the store answers again")

    def _open(self, words: str, error: Exception) -> None:
        self._is_open = True
        now = self._clock.elapsed()
        if now - self._said_at >= COMPLAINT_SECONDS:
            self._said_at = now
            self._is_said = True
            self._logger.warning("%s", words)
            if self._tell is not None:
                self._tell(error)


class Patience:
    """A block that waits for a store."""

    # Not a generator of `contextlib`: every claim pays for it.
    __slots__ = ("_complaints", "_timer", "_what")

    def __init__(self, complaints: Complaints, what: str) -> None:
        self._complaints = complaints
        self._what = what

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        # By the loop's own clock: it is a server that is waited for, not a moment.
        self._timer = loop.call_later(PATIENCE_SECONDS, self._complaints.unanswered, self._what)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._timer.cancel()
