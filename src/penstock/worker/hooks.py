"""Telling an app's hooks what happened, beside the work: they neither hold it up nor harm it."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any, Final

from penstock.app.app import App
from penstock.app.places import name_and_place, raised_at
from penstock.errors import HookFailed, PenstockError
from penstock.kernel.job import Job
from penstock.ports.clock import Clock
from penstock.runtime.exits import contained_children
from penstock.runtime.tasks import TaskSet, within
from penstock.worker.endings import Ending, FailedAttempt, GivenBack, Stalled, Succeeded

logger = logging.getLogger(__name__)

HOOK_SECONDS_MAX: Final = 5.0
"""How long a worker that ends waits for hooks under way."""
STALLED_KEPT_MAX: Final = 10_000
"""How many lost attempts an app remembers, so that each is told once."""


class Hooks:
    def __init__(self, app: App, clock: Clock) -> None:
        self._app = app
        self._clock = clock
        self._tasks = TaskSet("hooks")

    def tell(self, ending: Ending) -> None:
        match ending:
            case Succeeded():
                self._start(self._app.completed_hooks, ending.job, ending.result)
            case FailedAttempt():
                hooks = self._app.failed_hooks if ending.is_final else self._app.retried_hooks
                self._start(hooks, ending.job, ending.error)
            case Stalled():
                self._tell_stalled(ending.job, ending.job.attempt)
            case GivenBack():
                pass

    @property
    def stalled(self) -> Callable[[Job, int], None] | None:
        """Who hears of jobs whose worker died, and in which attempt; None: nobody wants to."""
        return self._tell_stalled if self._app.stalled_hooks else None

    def trouble(self, error: Exception) -> None:
        """Something of the worker itself goes wrong: the store is away, a hook failed."""
        self._start(self._app.error_hooks, error)

    async def end(self) -> None:
        if not await within(HOOK_SECONDS_MAX, self._clock, self._tasks.finished()):
            logger.warning("hooks were still under way after %g s", HOOK_SECONDS_MAX)
        await self._tasks.stop()

    def _tell_stalled(self, job: Job, attempt: int) -> None:
        """The worker that lost a lease and the one that keeps house may be in one process."""
        told = self._app.stalled_told
        if self._app.stalled_hooks and (job.id, attempt) not in told:
            told[job.id, attempt] = None
            if len(told) > STALLED_KEPT_MAX:
                del told[next(iter(told))]
            self._start(self._app.stalled_hooks, job)

    def _start(self, hooks: list[Callable[..., Any]], *facts: Any) -> None:
        if hooks:
            self._tasks.start("hooks", _call_each_harmlessly(hooks, *facts))


async def call_start_hooks(app: App) -> None:
    """In order; the first that fails says so, and the worker does not begin."""
    for hook in list(app.start_hooks):
        try:
            await call_each([hook], app)
        except PenstockError:
            raise
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            problem = f"{type(error).__name__}: {error}"
            name = getattr(hook, "__qualname__", repr(hook))
            raise HookFailed(name, problem, raised_at(error)) from error


async def call_each(hooks: list[Callable[..., Any]], *facts: Any) -> None:
    """In order, plain or async; the first that fails is the last that is called."""
    for hook in list(hooks):
        called = hook(*facts)
        if inspect.isawaitable(called):
            await called


async def _call_each_harmlessly(hooks: list[Callable[..., Any]], *facts: Any) -> None:
    for hook in hooks:
        await call_harmlessly(hook, *facts)


async def call_harmlessly(hook: Callable[..., Any], *facts: Any) -> None:
    """Whatever it raises is said; only who cancels the caller itself is heard."""
    task = asyncio.current_task()
    assert task is not None, "hooks are called in tasks"
    cancelled_before = task.cancelling()
    try:
        with contained_children():
            await call_each([hook], *facts)
    except GeneratorExit:
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and task.cancelling() > cancelled_before:
            raise
        logger.exception("a hook failed: %s", name_and_place(hook))
