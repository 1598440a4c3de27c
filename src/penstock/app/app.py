"""The app: an address, the tasks declared on it, and what they share.

There is no global registry: an app knows its own tasks, and several apps in one process never
meet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace, TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar, overload

from msgspec.structs import replace

from penstock.app.connection import Connection
from penstock.app.context import JobContext
from penstock.app.decorator import TaskDecorator
from penstock.app.running import run_here
from penstock.app.task import Task, TaskOptions
from penstock.client.arguments import raised
from penstock.client.newjob import NewJob, check_name
from penstock.client.queue import Queue
from penstock.errors import InvalidTask, PenstockError, UnknownTask
from penstock.kernel.commands import Receipt

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

Hook: TypeAlias = Callable[..., Any]
EnqueueMiddleware: TypeAlias = Callable[
    [NewJob, Callable[[NewJob], Awaitable[Receipt]]], Awaitable[Receipt]
]
Middleware: TypeAlias = Callable[[JobContext, Callable[[], Awaitable[Any]]], Awaitable[Any]]


class App:
    """Tasks and the queue they are enqueued on.

    The queue is opened by the first call that needs it, or by `async with app:`.
    """

    def __init__(self, url: str | None = None, **options: Any) -> None:
        self.state = SimpleNamespace()
        """What handlers share; start hooks fill it."""
        self.tasks: dict[str, Task[..., Any]] = {}
        self.start_hooks: list[Hook] = []
        self.stop_hooks: list[Hook] = []
        self.completed_hooks: list[Hook] = []
        self.failed_hooks: list[Hook] = []
        self.stalled_hooks: list[Hook] = []
        self.middleware: list[Middleware] = []
        self._enqueue_middleware: list[EnqueueMiddleware] = []
        self._connection = Connection(url, options)

    def __repr__(self) -> str:
        place = self._connection.url or "at PENSTOCK_URL"
        return f"<App {place} with {len(self.tasks)} tasks>"

    async def __aenter__(self) -> Self:
        await self.queue()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def relocate(self, url: str | None = None, **options: Any) -> None:
        """Another address or other options than it was made with, before the queue is opened."""
        kept = dict(self._connection.options)
        if url is not None:
            kept.pop("store", None)
        self._connection = Connection(url or self._connection.url, {**kept, **options})

    @property
    def url(self) -> str | None:
        """Where its queue is; None: where PENSTOCK_URL says, or in a store that was passed."""
        return self._connection.url

    async def queue(self) -> Queue:
        """The open queue, the same for all callers."""
        return await self._connection.queue()

    async def close(self) -> None:
        await self._connection.close()

    def wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Runs something of this app's from code without an event loop, and returns its result.

        `app.wait(app.enqueue_many(jobs))`. Tasks have `enqueue_sync` and `call_sync` for it.
        """
        return self._connection.wait(work)

    def __enter__(self) -> Self:
        self.wait(self.queue())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close_sync()

    def close_sync(self) -> None:
        """Closes what calls without an event loop have opened."""
        self._connection.close_and_wait()

    @contextmanager
    def rebound(self, url: str, **options: Any) -> Iterator[None]:
        """Points the app at another queue for as long as the block runs: for tests."""
        bound, self._connection = self._connection, Connection(url, options)
        try:
            yield
        finally:
            self._connection = bound

    # Declaring

    @overload
    def task(
        self, function: Callable[Concatenate[JobContext, Parameters], Awaitable[Result]], /
    ) -> Task[Parameters, Result]: ...
    @overload
    def task(
        self, function: Callable[Concatenate[JobContext, Parameters], Result], /
    ) -> Task[Parameters, Result]: ...
    @overload
    def task(
        self, function: Callable[Parameters, Awaitable[Result]], /
    ) -> Task[Parameters, Result]: ...
    @overload
    def task(self, function: Callable[Parameters, Result], /) -> Task[Parameters, Result]: ...
    @overload
    def task(
        self, /, *, name: str | None = None, cpu: bool = False, **options: Any
    ) -> TaskDecorator: ...
    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        cpu: bool = False,
        **options: Any,
    ) -> Any:
        """Makes a task of a function, by its own name or the one given. `@app.task` works bare too.

        Async functions run in the worker's event loop, plain ones in threads, plain ones with
        `cpu=True` in processes. The options are those of `enqueue`, as defaults.
        """
        if function is not None:
            return self._declare(function, name, cpu, options)
        return lambda declared: self._declare(declared, name, cpu, options)

    def _declare(
        self, function: Callable[..., Any], name: str | None, cpu: bool, options: dict[str, Any]
    ) -> Task[..., Any]:
        name = name or str(getattr(function, "__name__", ""))
        check_name("task", name)
        if name in self.tasks:
            raise InvalidTask(name, "this app has another task of that name; pass name=…")
        unknown = set(options) - set(TaskOptions.__struct_fields__)
        if unknown:
            known = ", ".join(TaskOptions.__struct_fields__)
            raise InvalidTask(name, f"no option {min(unknown)!r}; known are {known}")
        task: Task[..., Any] = Task(self, function, name, TaskOptions(**options), cpu=cpu)
        if cpu and task.is_async:
            raise InvalidTask(
                name, "cpu=True is for plain functions; an async one can't leave the loop"
            )
        if cpu and "<" in function.__qualname__:
            raise InvalidTask(name, "cpu=True needs a function at the top of a module")
        if cpu and task.signature.context_parameter is not None:
            raise InvalidTask(name, "the job's context can't go along into another process")
        self.tasks[name] = task
        return task

    def on_start(self, hook: Hook) -> Hook:
        """Called with the app before a worker takes its first job; plain or async."""
        self.start_hooks.append(hook)
        return hook

    def on_stop(self, hook: Hook) -> Hook:
        """Called with the app after a worker's last job."""
        self.stop_hooks.append(hook)
        return hook

    def on_completed(self, hook: Hook) -> Hook:
        """Called with (job, result) when a job of this process has completed."""
        self.completed_hooks.append(hook)
        return hook

    def on_failed(self, hook: Hook) -> Hook:
        """Called with (job, error) when an attempt in this process has failed."""
        self.failed_hooks.append(hook)
        return hook

    def on_stalled(self, hook: Hook) -> Hook:
        """Called with (job) when a job of this process lost its lease."""
        self.stalled_hooks.append(hook)
        return hook

    def around_enqueue(self, middleware: EnqueueMiddleware) -> EnqueueMiddleware:
        """Wraps every enqueue: `async def middleware(new, proceed): return await proceed(new)`."""
        self._enqueue_middleware.append(middleware)
        return middleware

    def around_job(self, middleware: Middleware) -> Middleware:
        """Wraps every run: `async def middleware(context, proceed): return await proceed()`."""
        self.middleware.append(middleware)
        return middleware

    # Using

    async def enqueue(self, new: NewJob) -> Receipt:
        proceed: Callable[[NewJob], Awaitable[Receipt]] = self._enqueue_directly
        for middleware in reversed(self._enqueue_middleware):
            proceed = _wrapped(middleware, proceed)
        return await proceed(new)

    async def enqueue_many(self, jobs: Iterable[NewJob]) -> list[Receipt | PenstockError]:
        """Many jobs with one commit: `app.enqueue_many([resize.job(7), resize.job(8)])`."""
        if self._enqueue_middleware:
            return list(await asyncio.gather(*(self._outcome(new) for new in jobs)))
        return await (await self.queue()).enqueue_many(jobs)

    async def call(self, new: NewJob, wait_seconds: float) -> Any:
        queue = await self.queue()
        named = new if new.id is not None else replace(new, id=queue.new_id())
        assert named.id is not None
        return await queue.answer(named.id, lambda: self.enqueue(named), wait_seconds)

    async def execute_now(self, task: Task[..., Any] | str, /, **arguments: Any) -> Any:
        """Runs a task here: no queue, but the same checks and middleware. For tests."""
        found = self.tasks.get(task) if isinstance(task, str) else task
        if found is None:
            raise UnknownTask(str(task), self.tasks)
        return await run_here(self, found, arguments)

    async def _outcome(self, new: NewJob) -> Receipt | PenstockError:
        try:
            return await self.enqueue(new)
        except PenstockError as error:
            return error

    async def _enqueue_directly(self, new: NewJob) -> Receipt:
        return raised((await (await self.queue()).enqueue_many([new]))[0])


def _wrapped(
    middleware: EnqueueMiddleware, proceed: Callable[[NewJob], Awaitable[Receipt]]
) -> Callable[[NewJob], Awaitable[Receipt]]:
    async def wrapped(new: NewJob) -> Receipt:
        return await middleware(new, proceed)

    return wrapped
