"""The app: an address, the tasks declared on it, and what they share.

There is no global registry: an app knows its own tasks, and several apps in one process never
meet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace, TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload

from msgspec.structs import replace

from penstock.address import fitting
from penstock.app.connection import Connection
from penstock.app.context import JobContext
from penstock.app.decorator import (
    ContextTask,
    FunctionTask,
    TaskDecorator,
    TypedTask,
    name_of,
    require_function,
)
from penstock.app.hooks import EnqueueMiddleware, Hooked
from penstock.app.running import run_here
from penstock.app.task import Task, TaskChanges, TaskOptions, unknown_option
from penstock.client.arguments import many_new_jobs, raised
from penstock.client.calls import Finish
from penstock.client.newjob import NewJob, check_name
from penstock.client.operations import id_of
from penstock.client.queue import Queue
from penstock.errors import InvalidTask, PenstockError, UnknownType
from penstock.kernel.commands import Receipt
from penstock.kernel.job import Job
from penstock.kernel.plain import plain_switch
from penstock.ports.backend import Stats
from penstock.wiring import OpenOptions

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class App(Hooked):
    """Tasks and the queue they are enqueued on.

    The queue is opened by the first call that needs it, or by `async with app:`.

    `url` and `options` are those of `penstock.open`; without a URL, `PENSTOCK_URL` is used.
    """

    def __init__(self, url: str | None = None, **options: Unpack[OpenOptions]) -> None:
        super().__init__()
        self.state = SimpleNamespace()
        """What handlers share; start hooks fill it."""
        self.tasks: dict[str, Task[..., Any]] = {}
        self._connection = Connection(url, dict(options))

    def __repr__(self) -> str:
        place = self._connection.url or "at PENSTOCK_URL"
        return f"<App {place} with {len(self.tasks)} tasks>"

    async def __aenter__(self) -> Self:
        await self.share_queue()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def relocate(self, url: str | None = None, **options: Unpack[OpenOptions]) -> None:
        """Another address or other options than it was made with, before the queue is opened.

        `url` and `options` are those of `penstock.open`.
        """
        kept = dict(self._connection.options)
        if url is not None:
            # Such as a schema, which the app has named for a server, and a test's memory has not.
            kept = fitting(url, kept)
            kept.pop("store", None)
        self._connection = Connection(
            url or self._connection.url, {**kept, **options}, self._connection.finish
        )

    @property
    def url(self) -> str | None:
        """Where its queue is; None: where PENSTOCK_URL says, or in a store that was passed."""
        return self._connection.url

    async def queue(self) -> Queue:
        """The open queue, the same for all callers in this event loop."""
        return await self._connection.queue()

    async def share_queue(self) -> Queue:
        """The same; while this event loop runs, `enqueue_sync` and its like use it, too."""
        return await self._connection.share()

    async def close(self) -> None:
        """Closes the queue, if it was opened; the next call opens it again."""
        await self._connection.close()

    def wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Runs something of this app's from code without an event loop, and returns its result.

        `app.wait(app.enqueue_many(jobs))`. Tasks have `enqueue_sync` and `call_sync` for it.

        `work` is a coroutine of this app's.
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
    def rebound(
        self,
        url: str,
        *,
        finish: Finish | None = None,
        **options: Unpack[OpenOptions],
    ) -> Iterator[None]:
        """Points the app at another queue for as long as the block runs: for tests.

        `url` and `options` are those of `penstock.open`. `finish` is told the id of what `call` has
        enqueued and runs it, so that nobody has to wait for a worker.
        """
        bound, self._connection = self._connection, Connection(url, dict(options), finish)
        try:
            yield
        finally:
            self._connection = bound

    # Declaring

    @overload
    def task(
        self, function: Callable[Concatenate[JobContext, Parameters], Result], /
    ) -> ContextTask[Parameters, Result]: ...
    @overload
    def task(
        self, function: Callable[Parameters, Result], /
    ) -> FunctionTask[Parameters, Result]: ...
    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        cpu: bool = False,
        **options: Unpack[TaskChanges],
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

        `function` is what runs, `name` its name if not its own, `cpu` whether it runs in a process,
        `options` the defaults of its jobs: see `TaskOptions`.
        """
        if function is not None:
            return self._declare(function, name, cpu, options)
        return lambda declared: self._declare(declared, name, cpu, options)

    def _declare(
        self, function: Callable[..., Any], name: str | None, cpu: bool, options: dict[str, Any]
    ) -> Task[..., Any]:
        name = check_name("task", name_of(function) if name is None else name)
        require_function(name, function)
        cpu = plain_switch("cpu", cpu)
        if name in self.tasks:
            raise InvalidTask(name, "this app has another task of that name; pass name=…")
        problem = unknown_option(options)
        if problem is not None:
            raise InvalidTask(name, problem)
        if options.get("operation") is not None:
            raise InvalidTask(
                name,
                "an operation names one call, and all calls of this task would be that one; "
                "write task.options(operation=…)",
            )
        task: Task[..., Any] = Task(self, function, name, TaskOptions(**options), cpu=cpu)
        if cpu and task.is_async:
            raise InvalidTask(
                name, "cpu=True is for plain functions; an async one can't leave the loop"
            )
        if cpu and "<" in function.__qualname__:
            raise InvalidTask(name, "cpu=True needs a function at the top of a module")
        self.tasks[name] = task
        return task

    # Using

    async def enqueue(self, new: NewJob) -> Receipt:
        """Adds the job `new`, as `task.job(…)` makes it, through the middleware."""
        proceed: Callable[[NewJob], Awaitable[Receipt]] = self._enqueue_directly
        for middleware in reversed(self._enqueue_middleware):
            proceed = _wrapped(middleware, proceed)
        return await proceed(new)

    async def enqueue_many(self, jobs: Iterable[NewJob]) -> list[Receipt | PenstockError]:
        """Many jobs with one commit: `app.enqueue_many([resize.job(7), resize.job(8)])`.

        `jobs` are what `task.job(…)` makes.
        """
        if self._enqueue_middleware:
            return list(await asyncio.gather(*(self._outcome(new) for new in jobs)))
        return await (await self.queue()).enqueue_many(jobs)

    async def call(self, new: NewJob, wait_seconds: float) -> Any:
        """Adds the job `new` and waits up to `wait_seconds` for its result."""
        queue = await self.queue()
        [named] = many_new_jobs([new])
        if new.id is None:
            # Known before it is enqueued, to be watched from then on.
            id = queue.new_id() if new.operation is None else id_of(new.operation)
            named = replace(new, id=id, operation=id)
        assert named.id is not None
        return await queue.answer(named.id, lambda: self.enqueue(named), wait_seconds)

    async def get(self, id: str) -> Job | None:
        """The job `id` with its state, progress and result; None if there is none of that id."""
        return await (await self.queue()).get(id)

    def get_sync(self, id: str) -> Job | None:
        """`get` for code without an event loop; `id` is the job's."""
        return self.wait(self.get(id))

    async def stats(self) -> Stats:
        """How many jobs are in which state, by queue and type."""
        return await (await self.queue()).stats()

    def stats_sync(self) -> Stats:
        """`stats` for code without an event loop."""
        return self.wait(self.stats())

    @overload
    async def execute_now(
        self,
        task: TypedTask[Parameters, Awaitable[Result]],
        /,
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result: ...
    @overload
    async def execute_now(
        self,
        task: TypedTask[Parameters, Result],
        /,
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result: ...
    @overload
    async def execute_now(
        self,
        task: Task[Parameters, Result],
        /,
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result: ...
    @overload
    async def execute_now(self, task: str, /, *args: Any, **kwargs: Any) -> Any: ...
    async def execute_now(self, task: Task[..., Any] | str, /, *args: Any, **kwargs: Any) -> Any:
        """Runs a task here: no queue, but the same checks and middleware. For tests.

        `task` is the task or its name; the rest is what it is called with.
        """
        found = self.tasks.get(task) if isinstance(task, str) else task
        if found is None:
            raise UnknownType(str(task), self.tasks)
        return await run_here(self, found, args, kwargs)

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
