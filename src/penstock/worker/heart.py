"""Heartbeats for everything a worker runs, together, three in the life of a lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from typing import Final

from penstock.app.context import Report
from penstock.client.queue import Queue
from penstock.errors import PASSING, JobCancelled, LeaseLost, PenstockError
from penstock.runtime.complaints import Complaints
from penstock.runtime.services import Services
from penstock.runtime.tasks import first_of, within
from penstock.worker.running import Run

BEATS_PER_LEASE: Final = 3
PROGRESS_SECONDS: Final = 1.0
"""How often progress is told at most, that of all jobs together."""
RETRY_SECONDS: Final = 1.0
"""How soon heartbeats that failed are tried again."""
UNSTOPPABLE_SECONDS: Final = 5.0
"""How long after its time limit a handler may take to notice that it was cancelled."""


class Heart:
    """Also sees what a cancellation could not end, and hands it to `abandon`."""

    def __init__(
        self,
        queue: Queue,
        services: Services,
        complaints: Complaints,
        lease_seconds: float,
        runs: Callable[[], Collection[Run]],
        unsettled: Callable[[], Collection[Run]],
        abandon: Callable[[Run], None],
    ) -> None:
        self._queue = queue
        self._clock = services.clock
        self._complaints = complaints
        self._lease_seconds = lease_seconds
        self._runs = runs
        self._unsettled = unsettled
        self._is_troubled = False
        self._abandon = abandon
        self._hurry = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        """Set while there is progress to tell."""

    def beat_soon(self) -> None:
        """Somebody has reason to think that a lease is gone."""
        self._hurry.set()

    async def run(self) -> None:
        while True:
            await first_of(self._clock.sleep(self._pause_seconds()), self._hurry.wait())
            self._hurry.clear()
            now = self._clock.elapsed()
            for run in list(self._runs()):
                limit = run.job.timeout_seconds + UNSTOPPABLE_SECONDS
                if run.is_held and now - run.started_at > limit:
                    self._abandon(run)
            runs = [run for run in self._all() if run.is_held]
            if runs:
                await self._beat(runs)

    def has_news(self) -> None:
        """A handler, in the loop or in a thread, has progress to tell."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._news.set)

    async def tell_progress(self) -> None:
        """Tells what handlers have reported, at most once a second and with one commit."""
        while True:
            await self._news.wait()
            await self._clock.sleep(PROGRESS_SECONDS)
            self._news.clear()
            runs = [run for run in self._runs() if run.is_held and run.context.untold is not None]
            if runs:
                await self._beat(runs)
            if any(run.is_held and run.context.untold is not None for run in self._runs()):
                # Reported meanwhile, or not heard: nobody calls for it a second time.
                self._news.set()

    async def tell_last(self, run: Run) -> None:
        """The progress of a handler that has ended, before its end is told."""
        report = run.context.untold
        if report is None or not run.is_held:
            return
        told = self._extend([run], report, self._clock.elapsed())
        try:
            if not await within(PROGRESS_SECONDS, self._clock, told):
                raise TimeoutError
        except (*PASSING, TimeoutError) as error:
            self._complaints.trouble("telling the last progress", error)

    def _all(self) -> Iterator[Run]:
        """What runs, and what has ended while nobody could be told so."""
        yield from self._runs()
        yield from self._unsettled()

    def _pause_seconds(self) -> float:
        """Until the next beat, or the end of a lease that could not be extended so far."""
        now, pause = self._clock.elapsed(), self._lease_seconds / BEATS_PER_LEASE
        if self._is_troubled:
            pause = min(RETRY_SECONDS, pause)
        left = (run.held_since + self._lease_seconds - now for run in self._all() if run.is_held)
        return max(0.0, min(pause, min(left, default=pause)))

    async def _beat(self, runs: list[Run]) -> None:
        sent_at = self._clock.elapsed()
        # No longer than the oldest lease lasts: by then its handler has to be stopped.
        oldest = min(run.held_since for run in runs)
        lasts_seconds = max(0.0, oldest + self._lease_seconds - sent_at)
        try:
            if not await within(lasts_seconds, self._clock, self._extend_all(runs, sent_at)):
                raise TimeoutError
            self._is_troubled = False
            self._complaints.fine()
        except (*PASSING, TimeoutError) as error:
            self._is_troubled = True
            self._complaints.trouble("a heartbeat", error)
        for run in runs:
            # By our own clock, from before the lease was asked for: it must be over by now.
            if self._clock.elapsed() - run.held_since >= self._lease_seconds:
                run.lose(LeaseLost(run.job.id))

    async def _extend_all(self, runs: list[Run], sent_at: float) -> None:
        """Sent together they share a commit, those with progress of their own included."""
        reports = [(run, run.context.untold) for run in runs]
        await asyncio.gather(
            self._extend([run for run, report in reports if report is None], None, sent_at),
            *(self._extend([run], report, sent_at) for run, report in reports if report),
        )

    async def _extend(self, runs: list[Run], report: Report | None, sent_at: float) -> None:
        with self._complaints.expect_answer("a heartbeat"):
            outcomes = await self._queue.heartbeat(
                [run.job for run in runs],
                progress=None if report is None else report.fraction,
                message=None if report is None else report.message,
                lease_seconds=self._lease_seconds,
            )
        for run, outcome in zip(runs, outcomes, strict=True):
            if isinstance(outcome, LeaseLost | JobCancelled):
                run.lose(outcome)
            elif not isinstance(outcome, PenstockError):
                run.held_since = sent_at
                if report is not None:
                    run.context.tell(report)
