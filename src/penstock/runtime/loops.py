"""Event loops: uvloop where it is installed, since it is faster; and loops in threads."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def new_loop() -> asyncio.AbstractEventLoop:
    if importlib.util.find_spec("uvloop") is not None:
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()


class LoopThread:
    """A loop that runs in a thread of its own, for code that has none."""

    def __init__(self, name: str) -> None:
        self.loop = new_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """False in a fork of the process, where only the forking thread lives on."""
        return self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


def run_apart(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of something async for plain code, also where a loop runs already: a notebook."""
    thread = LoopThread("penstock-apart")
    try:
        return thread.run(work)
    finally:
        thread.stop()
