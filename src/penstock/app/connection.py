"""An app's queue: opened when it is first needed, and owned by one event loop.

Code that has no loop of its own shares the owner's, if that runs in another thread (a plain
function in a worker's thread pool), or is given one in the background (a script, a Django view).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from penstock.client.queue import Queue
from penstock.errors import InvalidInput
from penstock.runtime.loops import LoopThread
from penstock.wiring import open as open_queue

Result = TypeVar("Result")


class Connection:
    def __init__(self, url: str | None, options: dict[str, Any]) -> None:
        self.url = url
        self.options = options
        self._queue: Queue | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()
        self._thread: LoopThread | None = None

    async def queue(self) -> Queue:
        """The open queue, the same for all callers."""
        self._settle_in(asyncio.get_running_loop())
        if self._queue is None:
            async with self._opening:
                if self._queue is None:
                    queue = open_queue(self.url, **self.options)
                    await queue.start()
                    self._queue = queue
        return self._queue

    async def close(self) -> None:
        queue, self._queue, self._loop = self._queue, None, None
        if queue is not None:
            await queue.close()

    def wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of something async, for code that can't await it."""
        if _is_inside_a_loop():
            work.close()
            raise InvalidInput("this would block the event loop: await the async twin instead")
        return asyncio.run_coroutine_threadsafe(work, self._loop_elsewhere()).result()

    def close_and_wait(self) -> None:
        """Closes what `wait` has opened."""
        thread, self._thread = self._thread, None
        if thread is not None and thread.is_alive:
            thread.run(self.close())
            thread.stop()

    def _settle_in(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is loop:
            return
        if self._loop is not None and not self._loop.is_closed():
            raise InvalidInput(
                "this app's queue is open in another event loop: close it there first, or use an "
                "App for each"
            )
        # The old one went with its loop, if there was one.
        self._loop, self._queue, self._opening = loop, None, asyncio.Lock()

    def _loop_elsewhere(self) -> asyncio.AbstractEventLoop:
        if self._thread is not None and not self._thread.is_alive:
            # This is a fork of the process that started it.
            self._thread = self._loop = self._queue = None
        if self._loop is not None and self._loop.is_running():
            return self._loop
        if self._thread is None:
            self._thread = LoopThread("penstock-app")
        return self._thread.loop


def _is_inside_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
