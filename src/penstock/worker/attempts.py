"""One attempt, from its handler's first line to how it ended."""

from __future__ import annotations

import asyncio

from penstock.app.app import App
from penstock.app.running import Execute, run
from penstock.client.tracebacks import leave_out_machinery
from penstock.errors import LeaseLost, UnknownType
from penstock.ports.clock import Clock
from penstock.runtime.exits import contain_children
from penstock.runtime.tasks import TimeLimit
from penstock.worker.endings import Ending, GivenBack, Stalled, Succeeded, ending_of, timed_out
from penstock.worker.running import Run


async def ended(app: App, attempt: Run, execute: Execute, clock: Clock) -> Ending:
    """Runs the job's task within its time limit and says what became of it; raises nothing."""
    job = attempt.job
    contain_children()
    limit = TimeLimit(job.timeout_seconds)
    try:
        task = app.tasks.get(job.type)
        if task is None:
            raise UnknownType(job.type, app.tasks)
        result = await run(app, task, attempt.context, execute)
    except BaseException as error:  # noqa: BLE001  # a handler may raise anything at all
        limit.lift()
        leave_out_machinery(error)
        if attempt.lost is not None:
            return Stalled(job, attempt.lost)
        if attempt.given_back:
            return GivenBack(job)
        if limit.has_expired:
            attempt.context.stop(LeaseLost(job.id))
            is_cancelled = isinstance(error, asyncio.CancelledError)
            return timed_out(job, error if is_cancelled else error.__cause__)
        return ending_of(job, error, clock.now())
    limit.lift()
    # It may have swallowed its cancellation; what it made counts for nothing all the same.
    if attempt.lost is not None:
        return Stalled(job, attempt.lost)
    if limit.has_expired:
        attempt.context.stop(LeaseLost(job.id))
        return timed_out(job)
    return Succeeded(job, result, task.result_codec)
