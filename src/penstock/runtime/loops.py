"""Event loops: uvloop where it is installed, since it is faster; and loops in threads."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import importlib.util
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

from penstock.errors import Forked
from penstock.runtime.tasks import TaskSet

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

EXIT_SECONDS_MAX: Final = 2.0
"""How long the end of a program that forgot to close something may take."""
LOOK_SECONDS: Final = 1.0
"""How often a thread that waits for its loop looks whether that still runs."""


def new_loop() -> asyncio.AbstractEventLoop:
    if importlib.util.find_spec("uvloop") is not None:
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()


class LoopThread:
    """A loop that runs in a thread of its own, for code that has none.

    Work that a thread hands over, and what comes of it, has one owner at any time. Until `run`
    returns, that is the loop: it alone begins the work, cancels it and undoes it. A thread that is
    interrupted (Ctrl-C) says only that it has left, and the loop acts on what it finds then:

    - work that has not begun never does;
    - work under way is cancelled and waited for; if it has a result all the same, that is undone;
    - a result that had come is undone.

    `settle` waits for all of this. What `run` has returned is the caller's.
    """

    def __init__(self, name: str) -> None:
        self.loop = new_loop()
        self._process = os.getpid()
        self._is_ending = False
        self._left: dict[_Call[Any], None] = {}
        """What threads have left, until the loop has seen it."""
        self._giving_up = TaskSet("left calls")
        self._thread = threading.Thread(target=self._turn, name=name, daemon=True)
        self._thread.start()
        _running[self] = None

    @property
    def is_alive(self) -> bool:
        """False in a fork of the process, where only the forking thread lives on."""
        return self._process == os.getpid() and self._thread.is_alive()

    def run(
        self,
        work: Coroutine[Any, Any, Result],
        undo: Callable[[Result], Coroutine[Any, Any, Any]] | None = None,
    ) -> Result:
        """The result, for a thread that waits for it; or the error, of whatever kind it is.

        A thread that is interrupted meanwhile cancels the work; a result that had come by then, and
        that nobody will get, goes to `undo`.
        """
        if not self.is_alive:
            work.close()
            raise Forked
        call = _Call(work, undo)
        try:
            self.loop.call_soon_threadsafe(self._begin, call)
            # A plain lock: an interrupt within a condition or a future may leave theirs locked.
            while not call.ended.acquire(timeout=LOOK_SECONDS):
                if not self.is_alive:
                    raise concurrent.futures.CancelledError
        except BaseException:
            self._left[call] = None
            with contextlib.suppress(RuntimeError):  # it is closed, and all has ended with it
                self.loop.call_soon_threadsafe(self._give_up_left)
            raise
        # Python looks for signals after calls into C, where a function begins and where a loop
        # turns. From here to whoever asked there must be none of these.
        if call.error is None:
            return call.result
        try:
            raise call.error
        finally:
            del call  # or the error holds itself, by way of its traceback

    async def settle(self) -> None:
        """Until what threads have left has ended and is undone."""
        self._give_up_left()
        await self._giving_up.finished()

    def stop(self) -> None:
        """Ends what still runs in it, then the thread."""
        _running.pop(self, None)
        if self.is_alive:
            self._end(None)
            self.loop.close()

    def _end(self, timeout_seconds: float | None) -> None:
        ending = asyncio.run_coroutine_threadsafe(_cancel_all(), self.loop)
        with contextlib.suppress(concurrent.futures.TimeoutError):
            ending.result(timeout_seconds)
        self._is_ending = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout_seconds)

    def _turn(self) -> None:
        while not self._is_ending:
            # A task that ends with one of these stops the loop around it. Whoever waits for that
            # task gets the error, and the other tasks go on.
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                self.loop.run_forever()

    def _begin(self, call: _Call[Any]) -> None:
        self._give_up_left()
        if not call.is_left:
            call.task = self.loop.create_task(call.work)
            call.task.add_done_callback(call.end)

    def _give_up_left(self) -> None:
        while self._left:
            call, _ = self._left.popitem()
            call.is_left = True
            if call.task is None:
                call.work.close()
            else:
                self._giving_up.start("give up", _give_up(call, call.task))


class _Call(Generic[Result]):
    """Work for the loop, of a thread that waits until it has ended."""

    result: Result

    def __init__(
        self,
        work: Coroutine[Any, Any, Result],
        undo: Callable[[Result], Coroutine[Any, Any, Any]] | None,
    ) -> None:
        self.work = work
        self.undo = undo
        self.task: asyncio.Task[Result] | None = None
        self.error: BaseException | None = None
        self.is_left = False
        self.ended = threading.Lock()
        """Held until it has."""
        self.ended.acquire()

    def end(self, task: asyncio.Task[Result]) -> None:
        if task.cancelled():
            self.error = concurrent.futures.CancelledError()
        else:
            self.error = task.exception()
            if self.error is None:
                self.result = task.result()
        self.ended.release()


async def _give_up(call: _Call[Result], task: asyncio.Task[Result]) -> None:
    task.cancel()  # which is nothing to one that has ended
    await asyncio.wait([task])
    if call.undo is None or task.cancelled() or task.exception() is not None:
        return
    try:
        await call.undo(task.result())
    except Exception as error:  # noqa: BLE001  # nobody is left to be told of it
        logger.warning("what an interrupted call had done could not be undone: %s", error)


def run_apart(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of something async for plain code, also where a loop runs already: a notebook."""
    thread = LoopThread("penstock-apart")
    try:
        return thread.run(work)
    finally:
        thread.stop()


async def _cancel_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


_running: Final[dict[LoopThread, None]] = {}


@atexit.register
def _end_quietly() -> None:
    """A program that forgot to close something ends without noise.

    Whatever a call has returned for is durable by then, so nothing needs more than to stop.
    """
    for thread in list(_running):
        if thread.is_alive:
            thread._end(EXIT_SECONDS_MAX)


_left_behind: Final[list[object]] = []


def leave_behind(loop: asyncio.AbstractEventLoop, *others: object) -> None:
    """In a fork: what was the parent's neither goes on nor ends here.

    Kept for ever, since a task that is collected says that it was never finished, and before that
    runs the cleaning up that its parent will do.
    """
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # for the end of the process
        _left_behind.append(task)
    _left_behind.extend((loop, *others))


def _leave_all_behind() -> None:
    for thread in _running:
        leave_behind(thread.loop, thread)
    _running.clear()


os.register_at_fork(after_in_child=_leave_all_behind)
