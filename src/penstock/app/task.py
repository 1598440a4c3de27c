"""A function that can be enqueued."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import datetime
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from penstock.app.signature import Signature
from penstock.client.newjob import NewJob
from penstock.kernel.commands import Receipt
from penstock.kernel.job import (
    DEFAULT_ATTEMPTS,
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    DEFAULT_TIMEOUT_SECONDS,
)
from penstock.kernel.retry import RetryPolicy

if TYPE_CHECKING:
    from penstock.app.app import App

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class TaskOptions(Struct, frozen=True, kw_only=True):
    """How a task's jobs are enqueued: its defaults, and what a call changes."""

    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    max_attempts: int = DEFAULT_ATTEMPTS
    retry: RetryPolicy | None = None
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    key: str | Callable[..., str] | None = None
    """A fixed key, or a function of the task's arguments that gives one."""
    unique_seconds: float = 0.0
    id: str | None = None
    delay_seconds: float = 0.0
    run_at: float | datetime | None = None
    meta: dict[str, Any] | None = None
    trace: str | None = None
    codec: str | None = None
    wait_seconds: float = 30.0
    """How long `call` waits for the result."""


class Task(Generic[Parameters, Result]):
    """What `@app.task` makes of a function. Calling it runs the function here and now."""

    def __init__(
        self,
        app: App,
        function: Callable[..., Any],
        name: str,
        options: TaskOptions,
        *,
        cpu: bool,
    ) -> None:
        self.app = app
        self.function = function
        self.name = name
        self.cpu = cpu
        self.is_async = inspect.iscoroutinefunction(function)
        self.signature = Signature(name, function)
        self._options = options
        update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def options(self, **changes: Any) -> Enqueuer[Parameters, Result]:
        """This task with other options for the next call: `task.options(priority=5).enqueue(…)`."""
        return Enqueuer(self, replace(self._options, **changes))

    def job(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> NewJob:
        """The job that `enqueue` would add, for `app.enqueue_many`."""
        return Enqueuer(self, self._options).job(*args, **kwargs)

    async def enqueue(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Receipt:
        """Adds a job that runs this task with these arguments."""
        return await Enqueuer(self, self._options).enqueue(*args, **kwargs)

    async def call(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """Enqueues, waits for the job's end and returns its result."""
        return await Enqueuer(self, self._options).call(*args, **kwargs)

    def enqueue_sync(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Receipt:
        """`enqueue` for code without an event loop: scripts, views, tasks that run in threads."""
        return Enqueuer(self, self._options).enqueue_sync(*args, **kwargs)

    def call_sync(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return Enqueuer(self, self._options).call_sync(*args, **kwargs)


class Enqueuer(Generic[Parameters, Result]):
    """A task with the options of one call."""

    def __init__(self, task: Task[Parameters, Result], options: TaskOptions) -> None:
        self._task = task
        self._options = options

    def job(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> NewJob:
        payload = self._task.signature.bind(args, kwargs)
        options = self._options
        key = options.key
        if callable(key):
            key = key(**self._task.signature.with_defaults(payload))
        return NewJob(
            self._task.name, payload, options.queue, options.id, key, options.unique_seconds,
            options.priority, options.delay_seconds, options.run_at, options.max_attempts,
            options.retry, options.timeout_seconds, options.meta, options.trace, options.codec,
        )  # fmt: skip

    async def enqueue(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Receipt:
        return await self._task.app.enqueue(self.job(*args, **kwargs))

    async def call(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        result = await self._task.app.call(self.job(*args, **kwargs), self._options.wait_seconds)
        typed: Result = self._task.signature.result(result)
        return typed

    def enqueue_sync(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Receipt:
        return self._task.app.wait(self.enqueue(*args, **kwargs))

    def call_sync(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return self._task.app.wait(self.call(*args, **kwargs))
