"""What an app has called beside its tasks: hooks that hear of jobs, middleware around them.

Each is checked where it is written, so that one that can't be called does not wait for the first
failure in production to say so.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from penstock.app.context import JobContext
from penstock.app.places import name_and_place
from penstock.client.newjob import NewJob
from penstock.errors import InvalidHook
from penstock.kernel.commands import Receipt
from penstock.kernel.job import Job

if TYPE_CHECKING:
    from penstock.app.app import App

# Generic in the hook itself, so that a decorated function keeps its own type. A failure may be any
# BaseException; hooks that expect an Exception are taken too, since that is what nearly all are.
AppHook = TypeVar("AppHook", bound="Callable[[App], Any]")
ResultHook = TypeVar("ResultHook", bound=Callable[[Job, Any], Any])
FailureHook = TypeVar("FailureHook", bound=Callable[[Job, Exception], Any])
JobHook = TypeVar("JobHook", bound=Callable[[Job], Any])
ErrorHook = TypeVar("ErrorHook", bound=Callable[[Exception], Any])

Hook: TypeAlias = Callable[..., Any]
EnqueueMiddleware: TypeAlias = Callable[
    [NewJob, Callable[[NewJob], Awaitable[Receipt]]], Awaitable[Receipt]
]
Middleware: TypeAlias = Callable[[JobContext, Callable[[], Awaitable[Any]]], Awaitable[Any]]


class Hooked:
    """The part of an `App` that others hang their functions on."""

    def __init__(self) -> None:
        self.start_hooks: list[Hook] = []
        self.stop_hooks: list[Hook] = []
        self.completed_hooks: list[Hook] = []
        self.failed_hooks: list[Hook] = []
        self.retried_hooks: list[Hook] = []
        self.stalled_hooks: list[Hook] = []
        self.stalled_told: dict[tuple[str, int], None] = {}
        """Attempts that they have heard of."""
        self.error_hooks: list[Hook] = []
        self.middleware: list[Middleware] = []
        self._enqueue_middleware: list[EnqueueMiddleware] = []

    def on_start(self, hook: AppHook) -> AppHook:
        """Called with the app before a worker takes its first job; plain or async.

        `hook` is a function, plain or async.
        """
        _require_arguments("on_start", hook, "app")
        self.start_hooks.append(hook)
        return hook

    def on_stop(self, hook: AppHook) -> AppHook:
        """Called with the app after a worker's last job.

        `hook` is a function, plain or async.
        """
        _require_arguments("on_stop", hook, "app")
        self.stop_hooks.append(hook)
        return hook

    def on_completed(self, hook: ResultHook) -> ResultHook:
        """Called with (job, result) when a job of this process has completed.

        `hook` is a function, plain or async.
        """
        _require_arguments("on_completed", hook, "job", "result")
        self.completed_hooks.append(hook)
        return hook

    def on_failed(self, hook: FailureHook) -> FailureHook:
        """Called with (job, error) when a job of this process has failed for good.

        `hook` is a function, plain or async.
        """
        _require_arguments("on_failed", hook, "job", "error")
        self.failed_hooks.append(hook)
        return hook

    def on_retried(self, hook: FailureHook) -> FailureHook:
        """Called with (job, error) when an attempt in this process has failed and another will
        follow, at `job.run_at`.

        `hook` is a function, plain or async.
        """
        _require_arguments("on_retried", hook, "job", "error")
        self.retried_hooks.append(hook)
        return hook

    def on_error(self, hook: ErrorHook) -> ErrorHook:
        """Called with (error) when a worker itself is in trouble, such as with its store.

        As often as it is logged: at most once a minute.

        `hook` is a function, plain or async.
        """
        _require_arguments("on_error", hook, "error")
        self.error_hooks.append(hook)
        return hook

    def on_stalled(self, hook: JobHook) -> JobHook:
        """Called with (job) when a job lost its lease.

        Both in the worker that had it and in the one that keeps house, which also hears of jobs
        whose worker died.

        `hook` is a function, plain or async.
        """
        _require_arguments("on_stalled", hook, "job")
        self.stalled_hooks.append(hook)
        return hook

    def around_enqueue(self, middleware: EnqueueMiddleware) -> EnqueueMiddleware:
        """Wraps every enqueue: `async def middleware(new, proceed): return await proceed(new)`.

        The `middleware` added first is the outermost.
        """
        _require_arguments("around_enqueue", middleware, "new", "proceed")
        self._enqueue_middleware.append(middleware)
        return middleware

    def around_job(self, middleware: Middleware) -> Middleware:
        """Wraps every run: `async def middleware(context, proceed): return await proceed()`.

        The `middleware` added first is the outermost.
        """
        _require_arguments("around_job", middleware, "context", "proceed")
        self.middleware.append(middleware)
        return middleware


def _require_arguments(decorator: str, hook: Hook, *names: str) -> None:
    """Refuses a function that can't be called with so many arguments."""
    if not callable(hook):
        raise InvalidHook(decorator, f"{type(hook).__name__} is no function", names)
    try:
        signature = inspect.signature(hook)
    except (TypeError, ValueError):
        return  # some that are written in C do not say what they take
    try:
        signature.bind(*names)
    except TypeError as error:
        raise InvalidHook(decorator, f"{name_and_place(hook)}: {error}", names) from None
