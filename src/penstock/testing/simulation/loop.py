"""An event loop that the seed alone drives: virtual time, no threads, no I/O.

Every callback belongs to the simulated process in whose context it was made. Within one process
callbacks run in their order, as asyncio promises; between processes the seed picks who goes next.
Time stands still while anything can run, then jumps to the next timer. A paused process keeps
its callbacks for later; a crashed one loses them: its tasks stop at the await where they are, for
good and without cleaning up.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import random  # noqa: TID251 - the seeded generator is handed in; only its type is needed
import sys
import warnings
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from itertools import count
from typing import Any, TypeVar, cast

T = TypeVar("T")


STEPS_MAX = 400_000
"""A world that is not over by then runs in circles."""


TICK_SECONDS = 1e-6


class Stuck(AssertionError):
    """Somebody waits for what can't happen, or runs in circles."""


class Process:
    """A simulated process as the loop sees it: its own queue of callbacks."""

    __slots__ = ("is_dead", "is_paused", "name", "ready")

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready: deque[Handle] = deque()
        self.is_paused = False
        self.is_dead = False

    def __repr__(self) -> str:
        return f"<Process {self.name}>"


class Handle:
    __slots__ = ("_when", "arguments", "callback", "context", "is_cancelled", "process")

    def __init__(
        self,
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
        context: contextvars.Context,
        process: Process,
        when: float = 0.0,
    ) -> None:
        self.callback: Callable[..., object] | None = callback
        self.arguments = arguments
        self.context = context
        self.process = process
        self.is_cancelled = False
        self._when = when

    def when(self) -> float:
        return self._when

    def cancel(self) -> None:
        self.is_cancelled = True
        self.callback, self.arguments = None, ()

    def cancelled(self) -> bool:
        return self.is_cancelled


WORLD = Process("world")
_process: contextvars.ContextVar[Process] = contextvars.ContextVar("process", default=WORLD)


class SimulatedLoop(asyncio.AbstractEventLoop):
    def __init__(self, rng: random.Random) -> None:
        self._luck = rng.random
        self._now = 0.0
        self._timers: list[tuple[float, int, Handle]] = []
        self._numbers = count()
        self._runnable: list[Process] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._generators: list[AsyncGenerator[Any, Any]] = []
        self._world = Process("world")
        self.errors: list[BaseException] = []
        """What callbacks raised: nothing should."""
        self.steps = 0

    # Processes

    def within(self, process: Process) -> contextvars.Context:
        """A context whose tasks and callbacks belong to the process."""
        context = contextvars.copy_context()
        context.run(_process.set, process)
        return context

    def pause(self, process: Process) -> None:
        process.is_paused = True
        if process in self._runnable:
            self._runnable.remove(process)

    def resume(self, process: Process) -> None:
        if process.is_paused and not process.is_dead:
            process.is_paused = False
            if process.ready:
                self._runnable.append(process)

    def crash(self, process: Process) -> None:
        process.is_dead = True
        process.ready.clear()
        if process in self._runnable:
            self._runnable.remove(process)

    # Time

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        """As if every machine had been asleep for so long."""
        self._now += seconds

    def call_soon(  # type: ignore[override]  # what asyncio says with type variables
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Any:
        handle = self._handle(callback, args, context)
        self._add(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Any:
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Any:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Any:
        # Time moves by at least a tick, or a wait for less than a float can add would never end.
        when = max(when, self._now + TICK_SECONDS)
        handle = self._handle(callback, args, context, when)
        if not handle.process.is_dead:
            heapq.heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    def _handle(
        self,
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
        context: contextvars.Context | None,
        when: float = 0.0,
    ) -> Handle:
        if context is None:
            context = contextvars.copy_context()
        process = context.get(_process, WORLD)
        return Handle(
            callback, arguments, context, self._world if process is WORLD else process, when
        )

    def _add(self, handle: Handle) -> None:
        process = handle.process
        if process.is_dead:
            return
        process.ready.append(handle)
        if len(process.ready) == 1 and not process.is_paused:
            self._runnable.append(process)

    # Running

    def run_until_complete(self, future: Any) -> Any:
        task = self.create_task(future)
        with self._running():
            while not task.done():
                self._run_one()
                if self.steps > STEPS_MAX:
                    raise Stuck(f"not over after {STEPS_MAX} steps")
        return task.result()

    def _run_one(self) -> None:
        runnable = self._runnable
        while not runnable:
            self._advance()
        index = int(self._luck() * len(runnable)) if len(runnable) > 1 else 0
        process = runnable[index]
        handle = process.ready.popleft()
        if not process.ready:
            runnable[index] = runnable[-1]
            runnable.pop()
        if handle.callback is None:
            return
        self.steps += 1
        try:
            handle.context.run(handle.callback, *handle.arguments)
        except Exception as error:  # noqa: BLE001 - kept and reported, whatever it is
            self.errors.append(error)

    def _advance(self) -> None:
        timers = self._timers
        while timers and (timers[0][2].callback is None or timers[0][2].process.is_dead):
            heapq.heappop(timers)
        if not timers:
            raise Stuck("nothing can run and no timer is set")
        self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            handle = heapq.heappop(timers)[2]
            if handle.callback is not None:
                self._add(handle)

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._generators.append, finalizer=None)
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def close(self) -> None:
        """Ends what is left, so that nothing of it surprises whoever comes next."""
        with warnings.catch_warnings():
            # What never began is closed without having been awaited; that is no oversight.
            warnings.simplefilter("ignore", RuntimeWarning)
            for task in self._tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]  # it was meant
                    _close(cast("Coroutine[Any, Any, Any]", task.get_coro()))
            for generator in self._generators:
                with contextlib.suppress(StopIteration, StopAsyncIteration, RuntimeError):
                    generator.aclose().__await__().send(None)
        self._tasks.clear()
        self._generators.clear()
        self._timers.clear()

    # What asyncio asks of a loop

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> Any:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        return task

    def create_future(self) -> Any:
        return asyncio.Future(loop=self)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> Any:
        """At once and inline: a thread would bring a scheduler that no seed drives."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it belongs to whoever awaits
            future.set_exception(error)
        return future

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Errors that nobody waited for: those of crashed processes, mostly."""

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """See `call_exception_handler`."""


def _close(coroutine: Coroutine[Any, Any, Any]) -> None:
    """A crashed coroutine may still want to await in its `finally`; it can't."""
    for _ in range(_CLOSINGS_MAX):
        try:
            coroutine.close()
        except RuntimeError:
            continue
        except (Exception, BaseExceptionGroup):  # noqa: BLE001 - the last words of the dead
            return
        else:
            return


_CLOSINGS_MAX = 10
