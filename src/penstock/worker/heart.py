"""Heartbeats for everything a worker runs, together, three in the life of a lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from penstock.client.queue import Queue
from penstock.errors import (
    BeingFilled,
    JobCancelled,
    LeaseLost,
    OutcomeUnknown,
    PenstockError,
    StoreError,
)
from penstock.runtime.complaints import Complaints
from penstock.runtime.services import Services
from penstock.runtime.tasks import first_of, within
from penstock.worker.running import Run

BEATS_PER_LEASE: Final = 3
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
        abandon: Callable[[Run], None],
    ) -> None:
        self._queue = queue
        self._clock = services.clock
        self._complaints = complaints
        self._lease_seconds = lease_seconds
        self._runs = runs
        self._abandon = abandon
        self._hurry = asyncio.Event()

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
            runs = [run for run in self._runs() if run.is_held]
            if runs:
                await self._beat(runs)

    def _pause_seconds(self) -> float:
        """Until the next beat, or the end of a lease that could not be extended so far."""
        now, pause = self._clock.elapsed(), self._lease_seconds / BEATS_PER_LEASE
        left = (run.held_since + self._lease_seconds - now for run in self._runs() if run.is_held)
        return max(0.0, min(pause, min(left, default=pause)))

    async def _beat(self, runs: list[Run]) -> None:
        sent_at = self._clock.elapsed()
        # No longer than the oldest lease lasts: by then its handler has to be stopped.
        oldest = min(run.held_since for run in runs)
        lasts_seconds = max(0.0, oldest + self._lease_seconds - sent_at)
        try:
            if not await within(lasts_seconds, self._clock, self._extend_all(runs, sent_at)):
                raise TimeoutError
            self._complaints.fine()
        except (StoreError, OutcomeUnknown, BeingFilled, TimeoutError) as error:
            self._complaints.trouble("a heartbeat", error)
        for run in runs:
            # By our own clock, from before the lease was asked for: it must be over by now.
            if self._clock.elapsed() - run.held_since >= self._lease_seconds:
                run.lose(LeaseLost(run.job.id))

    async def _extend_all(self, runs: list[Run], sent_at: float) -> None:
        """Sent together they share a commit, those with progress of their own included."""
        told = [run for run in runs if run.context.reported is not None]
        rest = [run for run in runs if run.context.reported is None]
        await asyncio.gather(
            self._extend(rest, None, sent_at),
            *(self._extend([run], run.context.reported, sent_at) for run in told),
        )

    async def _extend(self, runs: list[Run], progress: float | None, sent_at: float) -> None:
        outcomes = await self._queue.heartbeat(
            [run.job for run in runs], progress=progress, lease_seconds=self._lease_seconds
        )
        for run, outcome in zip(runs, outcomes, strict=True):
            if isinstance(outcome, LeaseLost | JobCancelled):
                run.lose(outcome)
            elif not isinstance(outcome, PenstockError):
                run.held_since = sent_at
                if run.context.reported == progress:
                    run.context.reported = None
