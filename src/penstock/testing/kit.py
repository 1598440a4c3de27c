"""The test kit: an app in memory, time at your command, and what was enqueued.

    async with in_memory(app) as kit:
        await sign_up("ada@example.com")                    # enqueues a welcome mail
        await kit.assert_enqueued(send_email, to="ada@example.com")
        await kit.drain()                                   # runs it, and what it enqueues

Nothing is stored and nothing sleeps. `kit.clock` moves the time; `drain(jump=True)` moves it as
far as it takes to run scheduled jobs and retries too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import ceil
from typing import Any, Final

from penstock.app.app import App
from penstock.app.task import Task
from penstock.client.queue import Queue
from penstock.kernel.job import Job, State
from penstock.runtime.services import Services
from penstock.testing.clock import FakeClock
from penstock.worker.options import Counters, WorkerOptions
from penstock.worker.worker import Worker

ROUNDS_MAX: Final = 1_000
JOBS_MAX: Final = 100_000
"""Jobs that enqueue others without end are not drained for ever."""


class Kit:
    """An app whose queue is in memory, for one test."""

    def __init__(self, app: App, queue: Queue, clock: FakeClock) -> None:
        self.app = app
        self.queue = queue
        self.clock = clock

    async def drain(self, *, jump: bool = False) -> Counters:
        """Runs every job that is due; with `jump`, advances the clock to those that will be."""
        total = Counters()
        for _ in range(ROUNDS_MAX):
            _add(total, await self._work_off())
            due_at = await self._next_due() if jump else None
            if due_at is None:
                return total
            # The queue counts in microseconds: on to the next whole one.
            await self.clock.advance_to(ceil(due_at * 1e6) / 1e6)
        raise AssertionError(f"still not drained after {ROUNDS_MAX} rounds")

    async def jobs(self, task: Task[..., Any] | str | None = None, **filter: Any) -> list[Job]:
        """The jobs of a task, or all; `state="failed"` and the like narrow it down."""
        type = None if task is None else _name(task)
        return [job async for job in self.queue.jobs(type=type, **filter)]

    async def assert_enqueued(self, task: Task[..., Any] | str, **arguments: Any) -> Job:
        """The one job of this task that waits with these arguments, others aside."""
        waiting = await self.jobs(task, state=State.PENDING)
        found = [job for job in waiting if self._has(job, arguments)]
        assert len(found) == 1, (
            f"{len(found)} jobs of {_name(task)} wait with {arguments}; "
            f"all that wait: {[job.payload for job in waiting]}"
        )
        return found[0]

    async def assert_nothing_enqueued(self, task: Task[..., Any] | str | None = None) -> None:
        waiting = await self.jobs(task, state=State.PENDING)
        assert not waiting, f"these wait: {[(job.type, job.payload) for job in waiting]}"

    def _has(self, job: Job, arguments: dict[str, Any]) -> bool:
        """Whether the handler would get these: typed, and with its defaults."""
        task = self.app.tasks.get(job.type)
        passed = job.payload or {} if task is None else task.signature.check(job.payload)
        return all(name in passed and passed[name] == arguments[name] for name in arguments)

    async def _work_off(self) -> Counters:
        options = WorkerOptions(burst=True, jobs_max=JOBS_MAX, monitor=False, name="test")
        worker = Worker(self.app, options, Services(clock=self.clock))
        await worker.run()
        if worker.counters.claimed == JOBS_MAX:
            raise AssertionError(f"still not drained after {JOBS_MAX} jobs")
        return worker.counters

    async def _next_due(self) -> float | None:
        """When the next job comes due; what is due and still waits is paused."""
        now = self.clock.now()
        waiting = await self.jobs(state=State.PENDING)
        return min((job.run_at for job in waiting if job.run_at > now), default=None)


@asynccontextmanager
async def in_memory(app: App, clock: FakeClock | None = None) -> AsyncIterator[Kit]:
    """Moves the app to a queue of its own in memory, for as long as the block runs."""
    clock = clock or FakeClock()
    with app.rebound("memory://", services=Services(clock=clock)):
        async with app:
            yield Kit(app, await app.queue(), clock)


def _name(task: Task[..., Any] | str) -> str:
    return task if isinstance(task, str) else task.name


def _add(total: Counters, more: Counters) -> None:
    for name in Counters.__struct_fields__:
        setattr(total, name, getattr(total, name) + getattr(more, name))
