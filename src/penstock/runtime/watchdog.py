"""Noticing, from a thread, that an event loop does not turn, and who holds it up.

The thread asks the loop for a sign of life now and then. While there is none, the loop's current
task is the one that runs, and its thread's innermost frame says where.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

ASK_SECONDS: Final = 1.0
BLOCKED_SECONDS: Final = 2.0
"""How long a loop may take to answer."""


class Blockage(Struct, frozen=True):
    """What holds a loop up."""

    seconds: float
    task: asyncio.Task[Any] | None
    place: str
    """File, line and function that run."""


class LoopWatch:
    """`blocked` is called in the watching thread, once for each time that the loop is blocked."""

    def __init__(self, blocked: Callable[[Blockage], None]) -> None:
        self._blocked = blocked
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="penstock-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def _watch(self) -> None:
        while not self._stopping.wait(ASK_SECONDS):
            turned, asked_at = threading.Event(), time.monotonic()
            try:
                self._loop.call_soon_threadsafe(turned.set)
            except RuntimeError:
                return  # it is closed: there is nothing left to watch
            if turned.wait(BLOCKED_SECONDS) or self._stopping.is_set():
                continue
            self._blocked(self._look(time.monotonic() - asked_at))
            while not turned.wait(ASK_SECONDS) and not self._stopping.is_set():
                continue

    def _look(self, seconds: float) -> Blockage:
        frame = sys._current_frames().get(self._loop_thread)  # its public name
        place = "unknown"
        if frame is not None:
            code = frame.f_code
            place = f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"
        return Blockage(seconds, asyncio.current_task(self._loop), place)
