"""Callers that leave: a task that is cancelled at its k-th await, for every k.

There are two ways to be cancelled at an await: while what is awaited is under way, and when it has
arrived but the task has not run since. The second loses an answer that was given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, Generic, Literal, TypeVar

from penstock.runtime.tasks import TaskSet

Result = TypeVar("Result")
Moment = Literal["under way", "arrived"]


class Interruption(Generic[Result]):
    """Runs `work`, cancels it at its `at`-th await, and calls `behind` in the same breath.

        outcome = Interruption(queue.claim(), at=2, moment="arrived", behind=queue.close)
        await outcome.run()

    `happened` is False if it had fewer awaits than that. Without `cancel` only `behind` happens,
    and the work goes on. `result` is what it returned, if it did.
    """

    def __init__(
        self,
        work: Coroutine[Any, Any, Result],
        *,
        at: int,
        moment: Moment = "under way",
        cancel: bool = True,
        behind: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self.happened = False
        self.result: Result | None = None
        self._work = work
        self._at = at
        self._moment = moment
        self._cancel = cancel
        self._behind = behind
        self._tasks = TaskSet("interruption")
        self._task: asyncio.Task[Result] | None = None

    async def run(self) -> None:
        self._task = self._tasks.start("caller", self._counted())
        await asyncio.wait([self._task])
        try:
            if not self._task.cancelled():
                self.result = self._task.result()
        finally:
            await self._tasks.finished()
        await self._tasks.stop()

    async def _counted(self) -> Result:
        return await self._count()

    @coroutine
    def _count(self) -> Generator[Any, Any, Result]:
        """Passes on what the work awaits, and sets the trap at the one that was asked for."""
        awaits, steps = 0, self._work.__await__()
        step: Callable[[], Any] = lambda: next(steps)  # noqa: E731  # replaced below
        while True:
            try:
                awaited = step()
            except StopIteration as end:
                result: Result = end.value
                return result
            awaits += 1
            if awaits == self._at:
                self._set_trap(awaited)
            try:
                value = yield awaited
            except BaseException as error:  # noqa: BLE001  # the work decides what it means
                step = lambda thrown=error: steps.throw(thrown)  # type: ignore[misc]  # noqa: E731
            else:
                step = lambda sent=value: steps.send(sent)  # type: ignore[misc]  # noqa: E731

    def _set_trap(self, awaited: Any) -> None:
        if self._moment == "arrived" and isinstance(awaited, asyncio.Future):
            # Before the task itself asks to be woken, so it is cancelled before it runs again.
            awaited.add_done_callback(lambda _: self._spring())
        else:
            asyncio.get_running_loop().call_soon(self._spring)

    def _spring(self) -> None:
        assert self._task is not None
        if self._task.done():
            return
        self.happened = True
        if self._cancel:
            self._task.cancel()
        if self._behind is not None:
            self._tasks.start("behind", self._behind())
