"""Where handlers run: in the loop, in threads, in processes."""

from __future__ import annotations

import asyncio
import importlib
import pickle
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from penstock.app.context import JobContext, enter
from penstock.app.running import in_this_loop, in_this_thread
from penstock.app.task import Task
from penstock.client.tracebacks import TRACEBACK_BYTES_MAX, leave_out_machinery, traceback_of
from penstock.errors import MissingExtra
from penstock.kernel.job import Job
from penstock.worker.reports import Reports, child_context

if TYPE_CHECKING:
    from pebble import ProcessPool

CHILD_TRACEBACK_BYTES_MAX: Final = TRACEBACK_BYTES_MAX * 3 // 4
"""The worker's own words about it need the rest."""


class Places:
    """The pools of one worker; each is made when the first task needs it.

    `linger` is told of every thread whose attempt is over before the thread is.
    """

    def __init__(
        self, concurrency: int, processes: int, linger: Callable[[Future[Any], Job], None]
    ) -> None:
        self._concurrency = concurrency
        self._processes = processes
        self._linger = linger
        self._threads: ThreadPoolExecutor | None = None
        self._pool: ProcessPool | None = None
        self._reports: Reports | None = None

    async def execute(
        self, task: Task[..., Any], context: JobContext, arguments: dict[str, Any]
    ) -> Any:
        if task.is_async:
            return await in_this_loop(task, context, arguments)
        if task.cpu:
            return await self._in_process(task, context, arguments)
        return await self._in_thread(task, context, arguments)

    def close(self) -> None:
        """Processes are killed; threads can't be, and end by themselves."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        if self._pool is not None:
            self._pool.stop()  # type: ignore[no-untyped-call]  # pebble types most, not this
            self._pool.join()
        if self._reports is not None:
            self._reports.close()

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
                self._linger(work, context.job)
            raise

    async def _in_process(
        self, task: Task[..., Any], context: JobContext, arguments: dict[str, Any]
    ) -> Any:
        if self._pool is None or self._reports is None:
            self._pool, self._reports = _process_pool(self._processes), Reports()
        # The context itself can't be sent: the child makes one of the job.
        name = task.signature.context_parameter
        sent = {key: value for key, value in arguments.items() if key != name}
        work = self._pool.schedule(
            _run_in_child, args=[*_address(task), sent, name, context.job, self._reports.path]
        )
        try:
            with self._reports.of(context):
                returned: bytes = await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            # Kills the process that runs it; the pool starts another.
            work.cancel()  # type: ignore[no-untyped-call]  # nor this
            raise
        result, error, frames = pickle.loads(returned)
        if error is not None:
            # What the child saw is told as the cause, since its frames can't be sent.
            raise error from ChildTraceback(frames)
        return result


def require_process_pool(tasks: Iterable[Task[..., Any]]) -> None:
    """Refuses tasks that could not run here, before one of their jobs is claimed."""
    bound = [task.name for task in tasks if task.cpu]
    if bound and find_spec("pebble") is None:
        raise MissingExtra("cpu", f"running a task with cpu=True ({', '.join(sorted(bound))})")


class ChildTraceback(Exception):
    """Where a task failed in its own process, in words."""


def _process_pool(processes: int) -> ProcessPool:
    import multiprocessing

    from pebble import ProcessPool

    # Not a fork of this process, whose threads and locks would come along half.
    return ProcessPool(max_workers=processes, context=multiprocessing.get_context("spawn"))


def _address(task: Task[..., Any]) -> tuple[str, str]:
    """Where a child finds the task; the function can't be sent, as its name means the task."""
    function: Callable[..., Any] = task.function
    return function.__module__, function.__qualname__


def _run_in_child(
    module: str,
    name: str,
    arguments: dict[str, Any],
    context_parameter: str | None,
    job: Job,
    reports: str,
) -> bytes:
    """The result or the error, as bytes: the pool would choke on one that it can't unpickle."""
    found: Any = sys.modules.get(module) or importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    function = found.function if isinstance(found, Task) else found
    context = child_context(job, reports)
    enter(context)
    if context_parameter is not None:
        arguments[context_parameter] = context
    try:
        return pickle.dumps((function(**arguments), None, ""))
    except BaseException as error:  # noqa: BLE001  # whatever it is, the worker judges it
        leave_out_machinery(error)
        frames = traceback_of(error, CHILD_TRACEBACK_BYTES_MAX) or ""
        return pickle.dumps((None, _sendable(error), frames))


def _sendable(error: BaseException) -> BaseException:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001  # what can't be sent is described
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
