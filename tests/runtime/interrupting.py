"""Ctrl-C for a thread that waits for a loop in another thread, at a moment of the test's choice."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.runtime import loops


def interrupt_waiting(patch: pytest.MonkeyPatch, *, after_the_answer: bool) -> None:
    """From now on every such wait is interrupted: at once, or when the answer has come."""

    class InterruptedCall(loops._Call[Any]):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self._lock, self.ended = self.ended, self  # type: ignore[assignment]

        def acquire(self, timeout: float) -> bool:
            if after_the_answer:
                self._lock.acquire()
            raise KeyboardInterrupt

        def release(self) -> None:
            self._lock.release()

    patch.setattr(loops, "_Call", InterruptedCall)
