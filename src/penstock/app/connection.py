"""An app's queue: opened when it is first needed, once in every event loop that needs it.

A handle belongs to its event loop, and a process may have several: a server's, one after the other
in tests, the one in the background for code that has none. Each gets a handle of its own on the
same queue, so sync and async calls go together in any order. `memory://` is the app's own: its
handles share it until the last of them is closed.

Code that has no loop is given one in the background (a script, a Django view), unless there is one
to share: one in which a worker runs, whose plain functions run in threads, or where the app was
entered with `async with`. Others may end at any time, with whatever they were asked for. A fork of
the process begins anew: of what its parent had open, nothing works there.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
import weakref
from collections.abc import Coroutine
from typing import Any, Final, Generic, TypeVar, cast

from penstock.client.calls import Finish
from penstock.client.queue import Queue
from penstock.errors import InvalidInput, QueueClosed
from penstock.runtime.loops import LoopThread, leave_behind
from penstock.wiring import new_memory
from penstock.wiring import open as open_queue

Result = TypeVar("Result")

LOOK_SECONDS: Final = 1.0
"""How often a thread that waits for a loop of others looks whether that still runs."""


class _Handle:
    """The queue as one event loop holds it."""

    def __init__(self) -> None:
        self.queue: Queue | None = None
        self.opening = asyncio.Lock()
        self.is_shared = False
        """Whether threads without a loop may use it, too."""


class Connection:
    def __init__(
        self, url: str | None, options: dict[str, Any], finish: Finish | None = None
    ) -> None:
        self.url = url
        self.options = options
        self.finish = finish
        self._forget()
        _connections.add(self)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._memory = new_memory()
        self._handles: dict[asyncio.AbstractEventLoop, _Handle] = {}
        self._thread: LoopThread | None = None

    async def queue(self) -> Queue:
        """The open queue, the same for all callers in this event loop."""
        handle = self._handle_in(asyncio.get_running_loop())
        if handle.queue is None:
            async with handle.opening:
                if handle.queue is None:
                    queue = open_queue(
                        self.url, memory=self._memory, finish=self.finish, **self.options
                    )
                    await queue.start()
                    handle.queue = queue
        return handle.queue

    async def share(self) -> Queue:
        """The same; from now on also for threads that have no loop."""
        queue = await self.queue()
        self._handle_in(asyncio.get_running_loop()).is_shared = True
        return queue

    async def close(self) -> None:
        """Closes what this event loop has opened, and what `wait` has."""
        await self._close_here()
        thread = self._thread
        if thread is not None and thread.loop is not asyncio.get_running_loop():
            await asyncio.to_thread(self.close_and_wait)

    def wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of something async, for code that can't await it."""
        if _is_inside_a_loop():
            work.close()
            raise InvalidInput("this would block the event loop: await the async twin instead")
        shared = self._loop_elsewhere()
        if shared is not None:
            call = _SharedCall(work)
            if call.is_served_by(shared):
                return call.result()
        return self._background().run(work)

    def close_and_wait(self) -> None:
        """Closes what `wait` has opened."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None and thread.is_alive:
            thread.run(self._close_here())
            thread.stop()

    async def _close_here(self) -> None:
        with self._lock:
            handle = self._handles.pop(asyncio.get_running_loop(), None)
            if not self._handles:
                self._memory = new_memory()
        if handle is not None and handle.queue is not None:
            await handle.queue.close()

    def _handle_in(self, loop: asyncio.AbstractEventLoop) -> _Handle:
        handle = self._handles.get(loop)
        if handle is None:
            with self._lock:
                for other in [other for other in self._handles if other.is_closed()]:
                    # The handle went with its loop.
                    del self._handles[other]
                handle = self._handles.setdefault(loop, _Handle())
        return handle

    def _loop_elsewhere(self) -> asyncio.AbstractEventLoop | None:
        """One of others' that runs and shares its handle."""
        with self._lock:
            own = None if self._thread is None else self._thread.loop
            for loop, handle in self._handles.items():
                if handle.is_shared and loop is not own and loop.is_running():
                    return loop
        return None

    def _background(self) -> LoopThread:
        with self._lock:
            if self._thread is None:
                self._thread = LoopThread("penstock-app")
            return self._thread


class _SharedCall(Generic[Result]):
    """Work for a loop that belongs to others, who may end it at any time."""

    def __init__(self, work: Coroutine[Any, Any, Result]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._is_begun = self._is_withdrawn = False
        self._future: concurrent.futures.Future[Result | None] | None = None

    def is_served_by(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether the loop has begun it; if it ended before that, nothing has happened."""
        running = self._run()
        try:
            self._future = asyncio.run_coroutine_threadsafe(running, loop)
        except RuntimeError:
            running.close()
            return False
        while not self._future.done():
            concurrent.futures.wait([self._future], LOOK_SECONDS)
            with self._lock:
                if not self._is_begun and not loop.is_running():
                    self._is_withdrawn = True
                    return False
        return True

    def result(self) -> Result:
        assert self._future is not None
        try:
            return cast("Result", self._future.result())
        except concurrent.futures.CancelledError:
            # The loop ended with what it had been asked for.
            raise QueueClosed from None

    async def _run(self) -> Result | None:
        with self._lock:
            if self._is_withdrawn:
                return None
            self._is_begun = True
        return await self._work


def _is_inside_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


_connections: Final[weakref.WeakSet[Connection]] = weakref.WeakSet()


def _forget_all() -> None:
    for connection in list(_connections):
        for loop, handle in connection._handles.items():
            leave_behind(loop, handle)
        connection._forget()


os.register_at_fork(after_in_child=_forget_all)
