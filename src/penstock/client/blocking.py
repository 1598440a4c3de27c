"""The blocking twin: the same queue for code without an event loop.

A thread runs the loop; every call is handed to it and waited for. There is no second
implementation: names, parameters and results are those of `Queue`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import wraps
from types import TracebackType
from typing import Any, Self, TypeVar

from penstock.client.queue import Queue
from penstock.runtime.loops import LoopThread
from penstock.runtime.tasks import TaskSet

Result = TypeVar("Result")


class BlockingQueue:
    """What `penstock.open_sync` returns. Safe to use from several threads."""

    def __init__(self, make: Callable[[], Queue]) -> None:
        self._make = make
        self._queue: Queue | None = None
        self._thread: LoopThread | None = None

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
        if self._thread is not None:
            return
        self._thread = LoopThread("penstock-blocking")
        try:
            self._queue = self._run(self._open())
        except BaseException:
            self._stop_loop()
            raise

    def close(self) -> None:
        if self._queue is not None:
            queue, self._queue = self._queue, None
            try:
                self._run(queue.close())
            finally:
                self._stop_loop()

    def __getattr__(self, name: str) -> Any:
        if self._queue is None:
            raise AttributeError(f"{name}: use the queue inside `with penstock.open_sync(…)`")
        attribute = getattr(self._queue, name)
        if not inspect.ismethod(attribute):
            return attribute
        return self._blocking(attribute)

    def _blocking(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*arguments: Any, **named: Any) -> Any:
            answer = method(*arguments, **named)
            if inspect.iscoroutine(answer):
                return self._run(answer)
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
        value = self._run(holding.enter())
        try:
            yield value
        finally:
            self._run(holding.leave())

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        assert self._thread is not None
        return self._thread.run(work)

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
        return await entered

    async def leave(self) -> None:
        assert self._task is not None
        self._leave.set()
        await self._task

    async def _hold(self, entered: asyncio.Future[Any]) -> None:
        async with self._manager as value:
            entered.set_result(value)
            await self._leave.wait()


async def _next(items: AsyncIterator[Result]) -> Result:
    return await anext(items)
