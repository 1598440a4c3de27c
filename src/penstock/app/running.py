"""Running a task's function on a job: arguments checked, middleware around, in the right place.

*Where* a function runs is the executor's business: `run_here` awaits it or uses a thread; the
worker has pools of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from penstock.app.context import JobContext, enter
from penstock.app.task import Task
from penstock.kernel.job import Job, Lease

if TYPE_CHECKING:
    from penstock.app.app import App

Execute: TypeAlias = Callable[[Task[..., Any], JobContext, dict[str, Any]], Awaitable[Any]]
"""Calls a task's function with checked arguments, somewhere."""


async def run(app: App, task: Task[..., Any], context: JobContext, execute: Execute) -> Any:
    """The result of one attempt, or whatever the handler raised."""
    arguments = task.signature.check(context.job.payload)
    if task.signature.context_parameter is not None:
        arguments[task.signature.context_parameter] = context
    if not app.middleware:
        return await execute(task, context, arguments)

    async def innermost() -> Any:
        return await execute(task, context, arguments)

    proceed: Callable[[], Awaitable[Any]] = innermost
    for middleware in reversed(app.middleware):
        proceed = _wrapped(middleware, context, proceed)
    return await proceed()


async def in_this_loop(task: Task[..., Any], context: JobContext, arguments: dict[str, Any]) -> Any:
    enter(context)
    return await task.function(**arguments)


def in_this_thread(task: Task[..., Any], context: JobContext, arguments: dict[str, Any]) -> Any:
    enter(context)
    try:
        return task.function(**arguments)
    except (StopIteration, GeneratorExit) as error:
        # It can't leave through a future: whoever awaits that would wait for ever, or end with it.
        raise RuntimeError(f"the handler raised {type(error).__name__}") from error


async def run_here(
    app: App, task: Task[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    # Through the codec, so that a handler gets what it would get from the queue.
    payload = msgspec.to_builtins(task.signature.bind(arguments, named), builtin_types=(bytes,))
    job = Job(
        id="now", tenant="", queue="", type=task.name, life=0, enqueued_at=0.0, run_at=0.0,
        payload=payload, attempt=1, lease=Lease(0, ""),
    )  # fmt: skip
    context = JobContext(job, app.state)

    async def execute(task: Task[..., Any], context: JobContext, arguments: dict[str, Any]) -> Any:
        if task.is_async:
            return await in_this_loop(task, context, arguments)
        return await asyncio.to_thread(in_this_thread, task, context, arguments)

    return await run(app, task, context, execute)


def _wrapped(
    middleware: Callable[[JobContext, Callable[[], Awaitable[Any]]], Awaitable[Any]],
    context: JobContext,
    proceed: Callable[[], Awaitable[Any]],
) -> Callable[[], Awaitable[Any]]:
    async def wrapped() -> Any:
        return await middleware(context, proceed)

    return wrapped
