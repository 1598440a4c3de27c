"""Keeping `SystemExit` and `KeyboardInterrupt` of other people's code inside of what they end.

asyncio lets these two out of the loop as soon as a task raises them, whoever waits for that task:
`await asyncio.gather(child())` can't catch what a child does with `sys.exit()`. So while somebody
runs code that is not its own, the loop makes its tasks with a factory of ours. A task that is
started from within a contained block, which a context variable knows, raises `ChildExited` in
their place: an error like any other, which ends whoever awaits that task and nobody else.

What is raised in a plain callback (`loop.call_soon(sys.exit)`) still ends the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from penstock.errors import ChildExited

_is_contained: ContextVar[bool] = ContextVar("penstock_contained", default=False)


def contain_children() -> None:
    """From now on, what the calling task starts is contained, and what that starts in its turn."""
    _is_contained.set(True)


@contextmanager
def contained_children() -> Iterator[None]:
    """The same for what is started within a block."""
    token = _is_contained.set(True)
    try:
        yield
    finally:
        # One that is collected after its loop has ended is closed in a context of others.
        with suppress(ValueError):
            _is_contained.reset(token)


@contextmanager
def containing_loop() -> Iterator[None]:
    """Has the running loop contain tasks, until the last block of this kind has ended in it."""
    loop = asyncio.get_running_loop()
    there = loop.get_task_factory()
    if isinstance(there, _ContainingFactory):
        factory = there
    else:
        factory = _ContainingFactory(there)
        loop.set_task_factory(factory)
    factory.users += 1
    try:
        yield
    finally:
        factory.users -= 1
        # Whoever has put another one around it meanwhile still calls it, which does no harm.
        if not factory.users and loop.get_task_factory() is factory:
            loop.set_task_factory(factory.before)


class _ContainingFactory:
    """Makes tasks as the factory before it did, or as asyncio does."""

    __slots__ = ("before", "users")

    def __init__(self, before: Any) -> None:
        self.before = before
        self.users = 0

    def __call__(self, loop: asyncio.AbstractEventLoop, work: Any, /, **options: Any) -> Any:
        if _is_contained.get():
            work = _Contained(work)
        if self.before is None:
            return asyncio.Task(work, loop=loop, **options)
        return self.before(loop, work, **options)


class _Contained(Coroutine[Any, Any, Any]):
    """A coroutine that is the one inside in all but how it exits.

    Not an async function around it: one that is cancelled before its first step would never
    await what is inside, and Python would complain of that.
    """

    __slots__ = ("_work",)

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work

    def send(self, value: Any) -> Any:
        try:
            return self._work.send(value)
        except (SystemExit, KeyboardInterrupt) as error:
            raise ChildExited(error) from error

    def throw(self, *error: Any) -> Any:
        try:
            return self._work.throw(*error)
        except (SystemExit, KeyboardInterrupt) as exit:
            raise ChildExited(exit) from exit

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._work.__await__()

    def __getattr__(self, name: str) -> Any:
        # Its frame and its name, for whoever shows the task.
        return getattr(self._work, name)
