"""Threads for blocking work, with as little between the event loop and the work as can be.

A commit to a folder is one hand-over to a thread and back. `concurrent.futures` takes 130 to 200
microseconds for that, where a queue and a future take 70 to 110: with a fast disk, a tenth of
the whole commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from penstock.errors import QueueClosed

T = TypeVar("T")

_Work: TypeAlias = tuple[asyncio.Future[Any], Callable[[], Any]]


class Threads:
    """At most `threads_max` threads, started when there is work that no idle one can take.

    They are daemons: a program may end while one is inside a system call, which for the stores
    is the same as being killed there.
    """

    def __init__(self, name: str, threads_max: int) -> None:
        self._name = name
        self._threads_max = threads_max
        self._started = 0
        self._idle = threading.Semaphore(0)
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._closing = weakref.finalize(self, self._work.put, None)
        self._closing.atexit = False

    def submit(self, act: Callable[[], T]) -> asyncio.Future[T]:
        """Has `act` run by a thread; the future is the running loop's."""
        if not self._closing.alive:
            # Whoever still asks has closed the queue under a call of its own.
            raise QueueClosed
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._work.put((future, act))
        if not self._idle.acquire(blocking=False) and self._started < self._threads_max:
            self._started += 1
            threading.Thread(
                target=_run, args=(self._work, self._idle), name=self._name, daemon=True
            ).start()
        return future

    def close(self) -> None:
        """Lets the threads end when they have done what was submitted before."""
        self._closing()


def _run(work: queue.SimpleQueue[_Work | None], idle: threading.Semaphore) -> None:
    while (item := work.get()) is not None:
        future, act = item
        try:
            result, error = act(), None
        except BaseException as raised:  # noqa: BLE001 - it is the caller's, who gets it
            result, error = None, raised
        # The loop may be gone when nobody waits for the answer any more.
        with contextlib.suppress(RuntimeError):
            future.get_loop().call_soon_threadsafe(_settle, future, result, error)
        # Or the last answer would be kept in memory until there is work again.
        del item, future, act, result, error
        idle.release()
    # One end mark serves all: each thread that sees it passes it on.
    work.put(None)


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
