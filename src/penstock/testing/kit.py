"""The test kit: an app in memory, time at your command, and what was enqueued.

    async with in_memory(app) as kit:
        await sign_up("ada@example.com")                    # enqueues a welcome mail
        await kit.assert_enqueued(send_email, to="ada@example.com")
        await kit.drain(raise_errors=True)                  # runs it, and what it enqueues

Nothing is stored and nothing sleeps. `kit.clock` moves the time; `drain(jump=True)` moves it as
far as it takes to run scheduled jobs and retries too. `task.call(…)` and the queue's own `call` run
what they have enqueued and do not wait for a worker. Plain tests have the twin,
`with in_memory_sync(app) as kit:`, without `await`; it goes together with `TestClient`, whose
handlers run in a loop of their own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from math import ceil
from typing import Any, Final, TypeVar

from penstock.app.app import App
from penstock.app.control import Retry, Snooze
from penstock.app.task import Task
from penstock.client.queue import Queue
from penstock.errors import UnknownType
from penstock.kernel.job import Job, State
from penstock.runtime.services import Services
from penstock.testing.clock import FakeClock
from penstock.worker.options import Counters, WorkerOptions
from penstock.worker.worker import Worker

Answer = TypeVar("Answer")

ROUNDS_MAX: Final = 1_000
JOBS_MAX: Final = 100_000
"""Jobs that enqueue others without end are not drained for ever."""


class Kit:
    """An app whose queue is in memory, for one test."""

    def __init__(self, app: App, queue: Queue, clock: FakeClock) -> None:
        self.app = app
        self.queue = queue
        self.clock = clock

    async def drain(self, *, jump: bool = False, raise_errors: bool = False) -> Counters:
        """Runs every job that is due; with `jump`, advances the clock to those that will be.

        With `raise_errors`, the first error that a handler raised is raised here, and nothing is
        tried again; asking for a retry or a snooze is none. Raises `UnknownType` if something is
        left that the app has no task for.
        """
        total = Counters()
        for _ in range(ROUNDS_MAX):
            if self.app.tasks:
                with self._heard() as errors:
                    _add(total, await self._work_off())
                if raise_errors and errors:
                    raise errors[0]
            due_at = await self._next_due() if jump else None
            if due_at is None:
                await self._check_known()
                return total
            await self._advance_to(due_at)
        raise AssertionError(f"still not drained after {ROUNDS_MAX} rounds")

    async def finish(self, id: str) -> None:
        """Runs what is due until the job `id` has ended, and moves the clock on to its retries."""
        for _ in range(ROUNDS_MAX):
            await self.drain()
            job = await self.queue.get(id)
            if job is None or job.state is not State.PENDING:
                # Ended; or a handler's own call, and the worker that runs that handler has it.
                return
            if job.run_at <= self.clock.now():
                raise AssertionError(f"job {id} of {job.type} waits: is queue {job.queue} paused?")
            await self._advance_to(job.run_at)
        raise AssertionError(f"job {id} has not ended after {ROUNDS_MAX} rounds")

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

    @contextmanager
    def _heard(self) -> Iterator[list[BaseException]]:
        """While entered, gathers what handlers raise."""
        errors: list[BaseException] = []

        def hear(job: Job, error: BaseException) -> None:
            if not isinstance(error, Retry | Snooze):
                errors.append(error)

        for hooks in (self.app.failed_hooks, self.app.retried_hooks):
            hooks.append(hear)
        try:
            yield errors
        finally:
            for hooks in (self.app.failed_hooks, self.app.retried_hooks):
                hooks.remove(hear)

    async def _advance_to(self, at: float) -> None:
        # The queue counts in microseconds: on to the next whole one, which a product that was
        # rounded down may have missed.
        whole = ceil(at * 1e6)
        await self.clock.advance_to((whole if whole / 1e6 >= at else whole + 1) / 1e6)

    async def _check_known(self) -> None:
        now = self.clock.now()
        for job in await self.jobs(state=State.PENDING):
            if job.run_at <= now and job.type not in self.app.tasks:
                raise UnknownType(job.type, self.app.tasks)

    async def _next_due(self) -> float | None:
        """When the next job comes due; what is due and still waits is paused."""
        now = self.clock.now()
        waiting = await self.jobs(state=State.PENDING)
        return min((job.run_at for job in waiting if job.run_at > now), default=None)


class BlockingKit:
    """The twin for tests without an event loop: the same, without `await`."""

    def __init__(self, app: App, clock: FakeClock) -> None:
        self.app = app
        self._clock = clock

    def drain(self, *, jump: bool = False, raise_errors: bool = False) -> Counters:
        """Runs every job that is due, as `Kit.drain` does, `jump` and `raise_errors` included."""
        return self._wait(lambda kit: kit.drain(jump=jump, raise_errors=raise_errors))

    def jobs(self, task: Task[..., Any] | str | None = None, **filter: Any) -> list[Job]:
        """The jobs of a `task`, or all; `state="failed"` and the like, as `filter`, narrow it."""
        return self._wait(lambda kit: kit.jobs(task, **filter))

    def assert_enqueued(self, task: Task[..., Any] | str, **arguments: Any) -> Job:
        """The one job of this `task` that waits with these `arguments`, others aside."""
        return self._wait(lambda kit: kit.assert_enqueued(task, **arguments))

    def assert_nothing_enqueued(self, task: Task[..., Any] | str | None = None) -> None:
        """No job of this `task`, or none at all, waits."""
        self._wait(lambda kit: kit.assert_nothing_enqueued(task))

    def advance(self, seconds: float) -> None:
        """Lets that many `seconds` pass."""
        self._wait(lambda kit: kit.clock.advance(seconds))

    def now(self) -> float:
        """What time it is in this test."""
        return self._clock.now()

    def _wait(self, ask: Callable[[Kit], Coroutine[Any, Any, Answer]]) -> Answer:
        async def asked() -> Answer:
            return await ask(await _kit(self.app, self._clock))

        return self.app.wait(asked())


@asynccontextmanager
async def in_memory(app: App, clock: FakeClock | None = None) -> AsyncIterator[Kit]:
    """Moves the app to a queue of its own in memory, for as long as the block runs.

    `app` is the one under test, `clock` one of yours that moves its time.
    """
    clock = clock or FakeClock()
    with _rebound(app, clock):
        async with app:
            yield await _kit(app, clock)


@contextmanager
def in_memory_sync(app: App, clock: FakeClock | None = None) -> Iterator[BlockingKit]:
    """The same for tests without an event loop: `app` and `clock` as there."""
    clock = clock or FakeClock()
    with _rebound(app, clock), app:
        yield BlockingKit(app, clock)


@contextmanager
def _rebound(app: App, clock: FakeClock) -> Iterator[None]:
    async def finish(id: str) -> None:
        await (await _kit(app, clock)).finish(id)

    with app.rebound("memory://", finish=finish, services=Services(clock=clock)):
        yield


async def _kit(app: App, clock: FakeClock) -> Kit:
    """In the loop that runs: a test and a server in it may have one each."""
    return Kit(app, await app.queue(), clock)


def _name(task: Task[..., Any] | str) -> str:
    return task if isinstance(task, str) else task.name


def _add(total: Counters, more: Counters) -> None:
    for name in Counters.__struct_fields__:
        setattr(total, name, getattr(total, name) + getattr(more, name))
