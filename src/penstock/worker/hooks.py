"""Telling an app's hooks what happened, beside the work: they neither hold it up nor harm it."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, Final

from penstock.app.app import App
from penstock.ports.clock import Clock
from penstock.runtime.tasks import TaskSet, within
from penstock.worker.endings import Ending, FailedAttempt, GivenBack, Stalled, Succeeded

logger = logging.getLogger(__name__)

HOOK_SECONDS_MAX: Final = 5.0
"""How long a worker that ends waits for hooks under way."""


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
                self._start(self._app.failed_hooks, ending.job, ending.error)
            case Stalled():
                self._start(self._app.stalled_hooks, ending.job)
            case GivenBack():
                pass

    async def end(self) -> None:
        if not await within(HOOK_SECONDS_MAX, self._clock, self._tasks.finished()):
            logger.warning("hooks were still under way after %g s", HOOK_SECONDS_MAX)
        await self._tasks.stop()

    def _start(self, hooks: list[Callable[..., Any]], *facts: Any) -> None:
        if hooks:
            self._tasks.start("hooks", _call_each_harmlessly(hooks, *facts))


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
    try:
        await call_each([hook], *facts)
    except Exception:
        logger.exception("a hook failed: %r", hook)
