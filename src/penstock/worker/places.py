"""Where handlers run: in the loop, in threads, in processes."""

from __future__ import annotations

import asyncio
import importlib
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from penstock.app.context import JobContext
from penstock.app.running import in_this_loop, in_this_thread
from penstock.app.task import Task
from penstock.errors import MissingExtra

if TYPE_CHECKING:
    from pebble import ProcessPool


class Places:
    """The pools of one worker; each is made when the first task needs it.

    `linger` is told of every thread whose attempt is over before the thread is.
    """

    def __init__(
        self, concurrency: int, processes: int, linger: Callable[[Future[Any]], None]
    ) -> None:
        self._concurrency = concurrency
        self._processes = processes
        self._linger = linger
        self._threads: ThreadPoolExecutor | None = None
        self._pool: ProcessPool | None = None

    async def execute(
        self, task: Task[..., Any], context: JobContext, arguments: dict[str, Any]
    ) -> Any:
        if task.is_async:
            return await in_this_loop(task, context, arguments)
        if task.cpu:
            return await self._in_process(task, arguments)
        return await self._in_thread(task, context, arguments)

    def close(self) -> None:
        """Processes are killed; threads can't be, and end by themselves."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        if self._pool is not None:
            self._pool.stop()  # type: ignore[no-untyped-call]  # pebble types most, not this
            self._pool.join()

    async def _in_thread(
        self, task: Task[..., Any], context: JobContext, arguments: dict[str, Any]
    ) -> Any:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._concurrency, "penstock-task")
        # What middleware has set in its context is seen by the handler, as it is in the loop.
        work = self._threads.submit(copy_context().run, in_this_thread, task, context, arguments)
        try:
            return await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            if not work.cancel() and not work.done():
                self._linger(work)
            raise

    async def _in_process(self, task: Task[..., Any], arguments: dict[str, Any]) -> Any:
        if self._pool is None:
            self._pool = _process_pool(self._processes)
        work = self._pool.schedule(_run_in_child, args=[*_address(task), arguments])
        try:
            returned: bytes = await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            # Kills the process that runs it; the pool starts another.
            work.cancel()  # type: ignore[no-untyped-call]  # nor this
            raise
        result, error = pickle.loads(returned)
        if error is not None:
            raise error
        return result


def _process_pool(processes: int) -> ProcessPool:
    try:
        import multiprocessing

        from pebble import ProcessPool
    except ImportError:
        raise MissingExtra("cpu", "running a task with cpu=True") from None
    # Not a fork of this process, whose threads and locks would come along half.
    return ProcessPool(max_workers=processes, context=multiprocessing.get_context("spawn"))


def _address(task: Task[..., Any]) -> tuple[str, str]:
    """Where a child finds the task; the function can't be sent, as its name means the task."""
    function: Callable[..., Any] = task.function
    return function.__module__, function.__qualname__


def _run_in_child(module: str, name: str, arguments: dict[str, Any]) -> bytes:
    """The result or the error, as bytes: the pool would choke on one that it can't unpickle."""
    found: Any = sys.modules.get(module) or importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    function = found.function if isinstance(found, Task) else found
    try:
        return pickle.dumps((function(**arguments), None))
    except BaseException as error:  # noqa: BLE001  # whatever it is, the worker judges it
        return pickle.dumps((None, _sendable(error)))


def _sendable(error: BaseException) -> BaseException:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001  # what can't be sent is described
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
