"""A function that can be enqueued."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar, Unpack

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from penstock.app.signature import Signature
from penstock.client.arguments import name_hint
from penstock.client.newjob import (
    JobOptions,
    NewJob,
    check_attempts,
    check_name,
    check_priority,
    check_retry,
    check_text,
    check_timeout,
    check_trace,
    epoch_seconds,
    plain_meta,
)
from penstock.errors import InvalidJob, InvalidTask
from penstock.kernel.commands import Receipt
from penstock.kernel.job import (
    DEFAULT_CODEC,
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    NO_SECONDS,
)
from penstock.kernel.plain import plain_seconds, plain_text
from penstock.kernel.retry import RetryPolicy

if TYPE_CHECKING:
    from penstock.app.app import App

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class TaskOptions(Struct, frozen=True, kw_only=True):
    """How a task's jobs are enqueued: its defaults, and what a call changes."""

    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    max_attempts: int | None = None
    """None, as of `retry` and `timeout_seconds`: what the queue's settings say."""
    retry: RetryPolicy | None = None
    timeout_seconds: float | None = None
    key: str | Callable[..., str] | None = None
    """A fixed key, or a function of the task's arguments that gives one."""
    unique_seconds: float = NO_SECONDS
    id: str | None = None
    delay_seconds: float = NO_SECONDS
    run_at: float | datetime | None = None
    meta: dict[str, Any] | None = None
    trace: str | None = None
    codec: str | None = None
    """How the arguments are stored; without, as JSON."""
    result_codec: str | None = None
    """How the task's results are stored; a matter of the task, not of one call."""
    operation: str | None = None
    wait_seconds: float = 30.0
    """How long `call` waits for the result."""

    def __post_init__(self) -> None:
        """Refuses here, where it is written, what every enqueue would refuse later."""
        for name, check in _CHECKS.items():
            value = getattr(self, name)
            if value is not None and not (name == "key" and callable(value)):
                force_setattr(self, name, check(value))
        if self.delay_seconds and self.run_at is not None:
            raise InvalidJob("run_at", self.run_at, "give either run_at or delay_seconds")


_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    "queue": partial(check_name, "queue"),
    "priority": check_priority,
    "max_attempts": check_attempts,
    "retry": check_retry,
    "timeout_seconds": check_timeout,
    "key": partial(check_text, "key"),
    "unique_seconds": partial(plain_seconds, "unique_seconds"),
    "id": partial(check_name, "id"),
    "delay_seconds": partial(plain_seconds, "delay_seconds"),
    "run_at": partial(epoch_seconds, "run_at"),
    "meta": plain_meta,
    "trace": check_trace,
    "codec": partial(plain_text, "codec"),
    "result_codec": partial(plain_text, "result_codec"),
    "operation": partial(check_name, "operation"),
    "wait_seconds": partial(plain_seconds, "wait_seconds"),
}


_ELSEWHERE: Final = {
    "countdown": "delay_seconds",
    "eta": "run_at",
    "max_retries": "max_attempts",
    "retries": "max_attempts",
    "attempts": "max_attempts",
    "default_retry_delay": "retry",
    "retry_backoff": "retry",
    "retry_policy": "retry",
    "backoff": "retry",
    "time_limit": "timeout_seconds",
    "soft_time_limit": "timeout_seconds",
    "timeout": "timeout_seconds",
    "task_id": "id",
    "job_id": "id",
    "serializer": "codec",
    "headers": "meta",
    "routing_key": "queue",
}
"""What other queues call them."""


_CELERY_CALLS: Final = {
    "delay": "`await task.enqueue(…)`, or `task.enqueue_sync(…)` without an event loop",
    "apply_async": "`await task.options(delay_seconds=…).enqueue(…)`, or `.enqueue_sync(…)`",
    "s": "`task.job(…)` and pass it to `app.enqueue_many`",
}
"""How Celery's tasks are called, and what does that here."""


def unknown_option(names: Iterable[str]) -> str | None:
    """What is wrong with names that should be options of a task, and what is meant perhaps."""
    known = TaskOptions.__struct_fields__
    for name in names:
        if name in known:
            continue
        return f"no option {name!r}{name_hint(name, known, _ELSEWHERE)}"
    return None


class TaskChanges(JobOptions, total=False):
    """The fields of `TaskOptions` as keywords, for type checkers."""

    key: str | Callable[..., str] | None
    timeout_seconds: float | None
    wait_seconds: float
    result_codec: str | None


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

    @property
    def result_codec(self) -> str | None:
        return self._options.result_codec

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    if not TYPE_CHECKING:
        # Out of a type checker's sight: to it, every name would be there.
        def __getattr__(self, name):
            instead = _CELERY_CALLS.get(name)
            hint = "" if instead is None else f"; write {instead}"
            raise AttributeError(
                f"'Task' object has no attribute {name!r}{hint}", name=name, obj=self
            )

    def options(self, **changes: Unpack[TaskChanges]) -> Enqueuer[Parameters, Result]:
        """This task with other options for the next call: `task.options(priority=5).enqueue(…)`.

        `changes` are fields of `TaskOptions`.
        """
        problem = unknown_option(changes)
        if problem is not None:
            raise InvalidTask(self.name, problem)
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
        """`call` for code without an event loop."""
        return Enqueuer(self, self._options).call_sync(*args, **kwargs)


class Enqueuer(Generic[Parameters, Result]):
    """A task with the options of one call."""

    def __init__(self, task: Task[Parameters, Result], options: TaskOptions) -> None:
        self._task = task
        self._options = options

    def job(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> NewJob:
        signature, options = self._task.signature, self._options
        payload = signature.bind(args, kwargs)
        key = options.key
        if callable(key):
            key = key(**signature.with_defaults(payload))
        if signature.brought_back and options.codec in (None, DEFAULT_CODEC):
            payload = signature.for_json(payload)
        return NewJob(
            self._task.name, payload, options.queue, options.id, key, options.unique_seconds,
            options.priority, options.delay_seconds, options.run_at, options.max_attempts,
            options.retry, options.timeout_seconds, options.meta, options.trace, options.codec,
            options.operation,
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
