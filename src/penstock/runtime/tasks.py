"""Background tasks with names and ends: the only place that starts one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from math import isinf
from typing import Any, Final, TypeVar

from penstock.ports.clock import Clock

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

AGAIN_SECONDS: Final = 0.1
AGAIN_SECONDS_MAX: Final = 30.0
"""How long work that has to go on pauses after an error: at first, and after many in a row."""


async def let_others_run() -> None:
    """Between parts of something long: everybody who can go on does so for once."""
    await asyncio.sleep(0)


async def both(first: Coroutine[Any, Any, None], second: Coroutine[Any, Any, None]) -> None:
    """Runs two at once; an error of either is raised as it is, after the other has ended."""
    other = asyncio.create_task(second)
    try:
        await first
    except BaseException:
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)
        raise
    await other


async def first_of(*works: Coroutine[Any, Any, Any]) -> None:
    """Until one of them ends, whose error is raised; the others are cancelled and waited for."""
    if len(works) == 1:
        await works[0]
        return
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, Result]) -> AsyncIterator[asyncio.Task[Result]]:
    """Runs something beside a block that awaits it where it needs it, and no longer."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def to_the_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Not cancelled with whoever awaits it: a cancellation is raised when it is over."""
    task = asyncio.create_task(work)
    given_up: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            given_up = error
    result = task.result()
    if given_up is not None:
        raise given_up
    return result


async def within(seconds: float, clock: Clock, work: Coroutine[Any, Any, Any]) -> bool:
    """Whether it ended in that time; if not, it was cancelled. Its error is raised."""
    ended = False

    async def noted() -> None:
        nonlocal ended
        await work
        ended = True

    await first_of(noted(), clock.sleep(seconds))
    return ended


async def happens(news: asyncio.Future[Any], timeout_seconds: float) -> bool:
    """Whether it is done before the time is up; if not, it can be awaited again."""
    done, _ = await asyncio.wait(
        [news], timeout=None if isinf(timeout_seconds) else timeout_seconds
    )
    return bool(done)


class Repeat:
    """Calls something every so many seconds until cancelled."""

    def __init__(self, seconds: float, call: Callable[..., None], *arguments: Any) -> None:
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._call = call
        self._arguments = arguments
        self._timer = self._loop.call_later(seconds, self._fire)

    def cancel(self) -> None:
        self._timer.cancel()

    def _fire(self) -> None:
        self._timer = self._loop.call_later(self._seconds, self._fire)
        self._call(*self._arguments)


class TimeLimit:
    """Cancels the task that makes it after so many seconds, unless it was lifted before.

    What `asyncio.timeout` does, for whoever runs thousands of short pieces of work a second and
    looks at what was raised anyway: it raises nothing of its own.
    """

    __slots__ = ("_task", "_timer", "has_expired")

    def __init__(self, seconds: float) -> None:
        task = asyncio.current_task()
        assert task is not None, "only a task can be cancelled"
        self._task = task
        self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)
        self.has_expired = False

    def lift(self) -> None:
        """Once, when the work has ended: from then on the cancellation was not one of the task."""
        self._timer.cancel()
        if self.has_expired:
            self._task.uncancel()

    def _expire(self) -> None:
        self.has_expired = True
        self._task.cancel()


class TaskSet:
    """Tasks that belong to one owner. What fails in one reaches the owner when it stops."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        # Dictionaries in place of sets, here and below: they keep their order, so what a
        # simulation does follows from its seed alone.
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def start(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work, name=f"penstock {self._owner}: {name}")
        self._tasks[task] = None
        task.add_done_callback(self._forget_finished)
        return task

    def keep(
        self,
        name: str,
        work: Callable[[], Coroutine[Any, Any, Any]],
        *,
        ends_with: tuple[type[Exception], ...] = (),
    ) -> asyncio.Task[Any]:
        """The same for what has to go on: an error is said, and the work begins again.

        It ends when the work returns, or with one of those errors.
        """
        return self.start(name, self._again_and_again(name, work, ends_with))

    async def _again_and_again(
        self,
        name: str,
        work: Callable[[], Coroutine[Any, Any, Any]],
        ends_with: tuple[type[Exception], ...],
    ) -> Any:
        seconds = AGAIN_SECONDS
        while True:
            began_at = asyncio.get_running_loop().time()
            try:
                return await work()
            except ends_with:
                raise
            except Exception:
                if asyncio.get_running_loop().time() - began_at > AGAIN_SECONDS_MAX:
                    seconds = AGAIN_SECONDS
                logger.exception(
                    "%s: %s failed in a way that it should not, and begins again in %g s",
                    self._owner, name, seconds,
                )  # fmt: skip
            await asyncio.sleep(seconds)
            seconds = min(2 * seconds, AGAIN_SECONDS_MAX)

    def _forget_finished(self, task: asyncio.Task[Any]) -> None:
        # A failed one is kept until `stop` has shown its error to somebody.
        if task.cancelled() or task.exception() is None:
            self._tasks.pop(task, None)

    async def finished(self) -> None:
        """Until none of them runs any more."""
        while running := {task for task in self._tasks if not task.done()}:
            await asyncio.wait(running)

    async def stop(self) -> None:
        """Cancels what still runs, waits for it, and raises what went wrong, if anything did."""
        tasks, self._tasks = self._tasks, {}
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result


class Signal:
    """Something happened: wakes everyone who waits, as often as it happens.

    `next` gives a future for the next time, to be taken before looking at what there is already,
    so that nothing that happens in between is missed.
    """

    def __init__(self) -> None:
        self._waiters: dict[asyncio.Future[None], None] = {}

    def set(self) -> None:
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def next(self) -> asyncio.Future[None]:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        waiter.add_done_callback(self._forget)
        return waiter

    def _forget(self, waiter: asyncio.Future[None]) -> None:
        self._waiters.pop(waiter, None)

    async def wait(self, timeout_seconds: float, news: asyncio.Future[None] | None = None) -> bool:
        """Until the next `set`, or the time is up. True: it happened.

        `news` is what `next` gave before, where something was awaited in between.
        """
        news = news or self.next()
        try:
            return await happens(news, timeout_seconds)
        finally:
            news.cancel()


class Latch:
    """Something happened: remembered until somebody has waited for it, and then forgotten."""

    def __init__(self) -> None:
        self._happened = asyncio.Event()

    def set(self) -> None:
        self._happened.set()

    async def wait(self, timeout_seconds: float) -> None:
        """Until it has happened since the last wait, or the time is up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._happened.wait()
        self._happened.clear()
