"""The worker: claims what it has room for, runs it, says how it ended.

It never holds more leases than it can start: a claim asks for as many jobs as there is room for,
and there is room again when a handler has ended. What ended is settled in the background, so
acks of one wave and the claim of the next share a commit.

Stopping has three steps: no more claims; handlers get `grace_seconds` to finish; what is left is
cancelled and given back without counting a failure. A second `stop` skips the waiting. A handler
that ignores its cancellation is left behind: its job is given back all the same.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Self

from msgspec.structs import asdict, replace

from penstock.app.app import App
from penstock.app.context import JobContext
from penstock.client.arguments import name_tuple
from penstock.client.queue import Queue
from penstock.errors import Moved, PenstockError
from penstock.kernel.job import Job
from penstock.maintenance.monitor import Monitor
from penstock.ports.backend import WorkerRecord
from penstock.runtime.complaints import Complaints
from penstock.runtime.exits import containing_loop
from penstock.runtime.services import Services
from penstock.runtime.tasks import TaskSet, first_of, within
from penstock.runtime.watchdog import LoopWatch
from penstock.worker.adaptation import Adaptation
from penstock.worker.attempts import ended
from penstock.worker.cancellations import Cancellations
from penstock.worker.claiming import Claiming
from penstock.worker.endings import (
    Ending,
    FailedAttempt,
    GivenBack,
    Stalled,
    Succeeded,
    timed_out,
)
from penstock.worker.heart import Heart
from penstock.worker.hooks import Hooks, call_harmlessly, call_start_hooks
from penstock.worker.options import AUTO, CONCURRENCY, Counters, WorkerOptions
from penstock.worker.places import Places, require_process_pool
from penstock.worker.registration import RUNNING_SHOWN_MAX, Registration, default_name
from penstock.worker.room import Room
from penstock.worker.running import Run
from penstock.worker.saying import (
    say_blocked,
    say_failed,
    say_ignored,
    say_lingers,
    say_loop_ends,
)
from penstock.worker.serving import check_types, served_types, types_without_process
from penstock.worker.settling import Settler

__all__ = ["Counters", "Worker", "WorkerOptions"]

logger = logging.getLogger(__name__)

STOP_SECONDS_MAX: Final = 5.0
"""How long a cancelled handler may take to notice."""


class Worker:
    """Runs an app's tasks: `await penstock.Worker(app).run()`, in the app's own loop.

    `async with penstock.Worker(app):` runs one beside the block, and drains it at the end.

    `app` is whose tasks, `types` which of them (None is all), `options` how (see `WorkerOptions`);
    `services` (clock, luck) are for tests.
    """

    def __init__(
        self,
        app: App,
        options: WorkerOptions | None = None,
        services: Services | None = None,
        *,
        types: Sequence[str] | None = None,
    ) -> None:
        self.options = options or WorkerOptions()
        if types is not None:
            self.options = replace(self.options, types=name_tuple("types", types))
        check_types(app, self.options)
        self.name = self.options.name or default_name()
        self.counters = Counters()
        self._app = app
        self._services = services or Services()
        self._types: tuple[str, ...] | None = None
        """What it claims, once it runs; None: jobs of any type."""
        self._started_at = self._services.clock.now()
        bounds = self.options.bounds
        self._room = Room(bounds.within(CONCURRENCY), self.options.processes)
        self._places = Places(bounds.ceiling, self.options.processes, self._linger)
        self._hooks = Hooks(app, self._services.clock)
        self._complaints = Complaints(logger, self._services.clock, self._hooks.trouble)
        self._tasks = TaskSet("worker")
        self._attempts = TaskSet("attempts")
        self._beside = TaskSet("embedded worker")
        self._ready = asyncio.Event()
        self._stopping = asyncio.Event()
        self._is_winding_down = False
        self.wants_restart = False
        """Whether it ended because too many of its handlers would not: a new process is needed."""
        self._hurry = asyncio.Event()

    async def __aenter__(self) -> Self:
        running = self._beside.start("run", self._run_beside())
        await self._ready.wait()
        if running.done():
            await running
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        if error is not None:
            self.stop()
        await self._beside.finished()
        await self._beside.stop()

    @property
    def running(self) -> list[str]:
        """The ids of the jobs under way."""
        return [attempt.job.id for attempt in self._room.runs]

    @property
    def left_behind(self) -> int:
        """Handlers that would not stop when they were told; they end with the process."""
        return len(self._room.runs) + self._room.lingering

    @property
    def is_draining(self) -> bool:
        """Whether it claims nothing any more."""
        return self._stopping.is_set() or self._is_winding_down

    @property
    def why_not_ready(self) -> str | None:
        """Why it claims no jobs now; None: it does."""
        if self.is_draining:
            return "it drains"
        if not self._ready.is_set():
            return "it starts"
        return "its store does not answer" if self._complaints.is_open else None

    def stop(self) -> None:
        """Drains and ends; called again, gives everything back at once."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    async def _run_beside(self) -> None:
        try:
            await self.run()
        finally:
            # One that could not start keeps nobody waiting.
            self._ready.set()

    async def run(self) -> None:
        """Works until stopped or, in a burst, until nothing that it serves is due."""
        with containing_loop():
            await self._work()

    async def _work(self) -> None:
        self._types = served_types(self._app, self.options)
        require_process_pool(self._app.tasks.values())
        queue = await self._app.share_queue()
        # What a start hook could not prepare no handler can use, so nothing is claimed then.
        await call_start_hooks(self._app)
        settler = Settler(queue, self._services, self._complaints, self._settled)
        heart = self._heart(queue, settler)
        cancellations = Cancellations(queue, self._services.clock, self._room, heart)
        registration = Registration(queue, self._services, lambda: self._describe(queue))
        claiming = self._claiming(queue, settler, heart)
        settling = {
            self._tasks.start("settling", settler.run())
            for _ in range(queue.capabilities.batches_at_once)
        }
        claims = {
            self._tasks.start("claims", claiming.run(self._stopping)),
            *(self._tasks.start("claims", claiming.help()) for _ in range(claiming.helpers)),
        }
        essential = {
            *settling,
            *claims,
            self._tasks.start("heartbeats", heart.run()),
            self._tasks.start("progress", heart.tell_progress()),
            self._tasks.start("cancellations", cancellations.run()),
            self._keep("registration", registration.run),
            self._tasks.start("stopping", self._stopping.wait()),
        }
        if self.options.concurrency == AUTO:
            adaptation = Adaptation(self._room, self.options.bounds, self._services.clock)
            essential.add(self._keep("adaptation", adaptation.run))
        if self.options.monitor:
            monitor = Monitor(
                queue, self.name, self._services, self.options.monitoring, self._hooks.stalled
            )
            essential.add(self._keep("monitor", monitor.run))
        watch = LoopWatch(lambda blockage: say_blocked(self._room.runs, blockage))
        watch.start()
        self._ready.set()
        try:
            # Whatever ends first, be it with an error, ends the worker.
            await _any_of(essential)
            self._lose_all_if_moved(essential)
        except asyncio.CancelledError:
            self._hurry.set()
            if any(task.cancelling() for task in essential):
                say_loop_ends()
            raise
        finally:
            watch.stop()
            for claim in claims:
                claim.cancel()
            await self._wind_down(settler, settling, registration)

    def _keep(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[Any]:
        """For what no job depends on: what nobody foresaw is said, and the worker goes on.

        Where a part that jobs depend on breaks, the worker ends, and its jobs go back.
        """
        return self._tasks.keep(name, work, ends_with=(PenstockError,))

    def _claiming(self, queue: Queue, settler: Settler, heart: Heart) -> Claiming:
        return Claiming(
            queue,
            replace(self.options, name=self.name),
            self._types,
            types_without_process(self._app, self._types),
            self._services,
            self._complaints,
            self._room,
            settler,
            lambda job, sent_at: self._start(job, settler, heart, sent_at),
        )

    def _heart(self, queue: Queue, settler: Settler) -> Heart:
        def abandon(attempt: Run) -> None:
            say_ignored(attempt.job)
            attempt.abandon()
            settler.add(timed_out(attempt.job))
            self._recycle_if_stuck()

        return Heart(
            queue,
            self._services,
            self._complaints,
            self.options.lease_seconds,
            lambda: self._room.runs,
            lambda: settler.unsettled,
            abandon,
        )

    def _linger(self, thread: Future[Any], job: Job) -> None:
        """A thread can't be interrupted: it takes up room until it ends by itself."""
        self._room.linger(thread)
        say_lingers(job, self.stuck, self._room.limit)
        self._recycle_if_stuck()

    @property
    def stuck(self) -> int:
        """How many handlers go on although their attempts are over."""
        return self._room.lingering + sum(run.is_over for run in self._room.runs)

    def _recycle_if_stuck(self) -> None:
        limit = self.options.recycle
        if limit is not None and self.stuck >= limit and not self.is_draining:
            logger.warning("%d handlers would not stop: draining, to start again", self.stuck)
            self.wants_restart = True
            self.stop()

    # Running

    def _start(self, job: Job, settler: Settler, heart: Heart, sent_at: float) -> None:
        self.counters.claimed += 1
        task = self._app.tasks.get(job.type)
        context = JobContext(job, self._app.state, heart.has_news)
        attempt = Run(job, context, sent_at, needs_process=task is not None and task.cpu)
        self._room.take(attempt)
        attempt.task = self._attempts.start(job.id, self._attempt(attempt, settler, heart))

    async def _attempt(self, attempt: Run, settler: Settler, heart: Heart) -> None:
        try:
            ending = await ended(self._app, attempt, self._places.execute, self._services.clock)
            # From here on there is no handler to interrupt.
            attempt.task = None
            if attempt.context.untold is not None:
                await heart.tell_last(attempt)
        finally:
            self._room.give_up(attempt)
        if not attempt.is_over:
            settler.add(ending, attempt)

    def _settled(self, ending: Ending) -> None:
        match ending:
            case Succeeded():
                self.counters.completed += 1
            case FailedAttempt():
                self.counters.failed += 1
                say_failed(ending, self._services.clock.now())
            case GivenBack():
                self.counters.given_back += 1
            case Stalled():
                self.counters.stalled += 1
        self._hooks.tell(ending)

    def _describe(self, queue: Queue) -> WorkerRecord:
        return WorkerRecord(
            id=self.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            tenant=queue.tenant,
            queues=None if self.options.queues is None else list(self.options.queues),
            concurrency=self._room.limit,
            started_at=self._started_at,
            seen_at=self._services.clock.now(),
            state="draining" if self.is_draining else "running",
            shards=queue.capabilities.shards,
            busy=self.left_behind,
            running=self.running[:RUNNING_SHOWN_MAX],
            counters=asdict(self.counters),
            types=None if self._types is None else sorted(self._types),
            registration_seconds=queue.capabilities.registration_seconds,
        )

    # Stopping

    def _lose_all_if_moved(self, tasks: set[asyncio.Task[Any]]) -> None:
        """Nobody can tell a queue that is elsewhere now how an attempt ended: none counts."""
        ended = [task for task in tasks if task.done() and not task.cancelled()]
        moved = next((e for e in map(asyncio.Task.exception, ended) if isinstance(e, Moved)), None)
        if moved is not None:
            for attempt in self._room.runs:
                attempt.lose(moved)

    async def _wind_down(
        self, settler: Settler, settling: set[asyncio.Task[Any]], registration: Registration
    ) -> None:
        self._is_winding_down = True
        registration.refresh()
        try:
            await self._drain(settler)
            # Longer than a lease lasts there is nothing to tell: the queue has taken it back.
            told = self._tasks.start("last words", settler.drained())
            hurry = self._tasks.start("hurry", self._hurry.wait())
            seconds = self.options.lease_seconds
            await _any_of({told, hurry, *settling}, seconds)
            await _any_of({told, *settling}, STOP_SECONDS_MAX)
            if not told.done():
                logger.warning("the queue could not be told how some jobs ended; they run again")
            await self._hooks.end()
            await registration.end()
        finally:
            await self._let_go()

    async def _drain(self, settler: Settler) -> None:
        """Waits for the handlers within the grace, then gives back what is left."""
        clock = self._services.clock
        done = first_of(self._hurry.wait(), self._room.idle())
        await within(self.options.grace_seconds, clock, done)
        for attempt in self._room.runs:
            attempt.give_back()
        if await within(STOP_SECONDS_MAX, clock, self._room.idle()):
            return
        logger.warning("these jobs' handlers ignore cancellation: %s", ", ".join(self.running))
        for attempt in self._room.runs:
            if not attempt.is_over and attempt.lost is None:
                attempt.abandon()
                settler.add(GivenBack(attempt.job))

    async def _let_go(self) -> None:
        try:
            await self._tasks.stop()
            if not self._room.runs:
                await self._attempts.stop()
        finally:
            self._places.close()
            for hook in self._app.stop_hooks:
                await call_harmlessly(hook, self._app)


async def _any_of(tasks: set[asyncio.Task[Any]], timeout_seconds: float | None = None) -> None:
    await asyncio.wait(tasks, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
