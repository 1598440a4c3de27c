"""The blocking twin: the same queue for code without an event loop.

A thread runs the loop; every call is handed to it and waited for. There is no second
implementation: names, parameters and results are those of `Queue`.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from penstock.client.blocking_methods import BlockingMethods
from penstock.client.queue import Queue
from penstock.errors import NotOpen, QueueClosed
from penstock.runtime.loops import LoopThread
from penstock.runtime.tasks import TaskSet

Result = TypeVar("Result")

_HOW_TO_OPEN: Final = "`with penstock.open_sync(…)`, or `queue.start()`"


class BlockingQueue(BlockingMethods):
    """What `penstock.open_sync` returns. Safe to use from several threads."""

    def __init__(self, make: Callable[[], Queue]) -> None:
        self._make = make
        self._queue: Queue | None = None
        self._thread: LoopThread | None = None
        self._lifecycle = threading.Lock()
        self._was_opened = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Opens the queue; `with` does it. Once closed, it stays so: `QueueClosed`."""
        with self._lifecycle:
            if self._thread is not None:
                return
            if self._was_opened:
                raise QueueClosed
            self._thread = LoopThread("penstock-blocking")
            try:
                self._queue = self._run(self._open(), Queue.close)
                self._was_opened = True
            except BaseException:
                try:
                    self._run(self._thread.settle())
                finally:
                    self._stop_loop()
                raise

    def close(self) -> None:
        """Finishes what was accepted and ends the thread; `with` does it.

        What interrupted calls had got is given back before.
        """
        with self._lifecycle:
            if self._queue is None:
                return
            queue, self._queue = self._queue, None
            try:
                # In a fork there is nothing to close: it stayed behind in the parent.
                if self._thread is not None and self._thread.is_alive:
                    self._run(self._thread.settle())
                    self._run(queue.close())
            finally:
                self._stop_loop()

    if not TYPE_CHECKING:
        # Out of a type checker's sight: to it, every name would be there.
        def __getattr__(self, name):
            if self._queue is None:
                if name not in dir(self):
                    raise AttributeError(f"a queue has no {name!r}", name=name, obj=self)
                raise QueueClosed if self._was_opened else NotOpen(_HOW_TO_OPEN)
            attribute = getattr(self._queue, name)
            if not inspect.ismethod(attribute):
                return attribute
            return self._blocking(attribute)

    def __dir__(self) -> list[str]:
        public = [name for name in dir(Queue) if not name.startswith("_")]
        return sorted({*super().__dir__(), *public, "tenant"})

    def _blocking(self, method: Callable[..., Any]) -> Callable[..., Any]:
        # Leases that a thread was given when it had been interrupted are nobody's.
        undo = self._queue.release if self._queue and method.__name__ == "claim" else None

        @wraps(method)
        def call(*arguments: Any, **named: Any) -> Any:
            answer = method(*arguments, **named)
            if inspect.iscoroutine(answer):
                return self._run(answer, undo)
            if isinstance(answer, AsyncIterator):
                return self._iterate(answer)
            if isinstance(answer, AbstractAsyncContextManager):
                return self._enter(answer)
            return answer

        return call

    def _iterate(self, items: AsyncIterator[Result]) -> Iterator[Result]:
        try:
            while True:
                try:
                    yield self._run(_next(items))
                except StopAsyncIteration:
                    return
        finally:
            self._run(items.aclose())  # type: ignore[attr-defined]  # all of ours are generators

    @contextmanager
    def _enter(self, manager: AbstractAsyncContextManager[Result]) -> Iterator[Result]:
        """A thread can't be interrupted: a lost lease shows when the block ends."""
        holding = _Holding(manager)
        value = self._run(holding.enter(), lambda _: holding.leave())
        try:
            yield value
        finally:
            self._run(holding.leave())

    def _run(
        self,
        work: Coroutine[Any, Any, Result],
        undo: Callable[[Any], Coroutine[Any, Any, None]] | None = None,
    ) -> Result:
        thread = self._thread
        if thread is None:
            work.close()
            raise QueueClosed if self._was_opened else NotOpen(_HOW_TO_OPEN)
        return thread.run(work, undo)

    async def _open(self) -> Queue:
        queue = self._make()
        await queue.start()
        return queue

    def _stop_loop(self) -> None:
        assert self._thread is not None
        self._thread.stop()
        self._thread = None


class _Holding:
    """An async context held open by one task, since that is the task it may cancel."""

    def __init__(self, manager: AbstractAsyncContextManager[Any]) -> None:
        self._manager = manager
        self._leave = asyncio.Event()
        self._tasks = TaskSet("blocking")
        self._task: asyncio.Task[None] | None = None

    async def enter(self) -> Any:
        entered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._task = self._tasks.start("context", self._hold(entered))
        try:
            return await entered
        except asyncio.CancelledError:
            await self.leave()
            raise

    async def leave(self) -> None:
        assert self._task is not None
        self._leave.set()
        await self._task

    async def _hold(self, entered: asyncio.Future[Any]) -> None:
        async with self._manager as value:
            if not entered.done():
                entered.set_result(value)
            await self._leave.wait()


async def _next(items: AsyncIterator[Result]) -> Result:
    return await anext(items)
