"""One attempt under way."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.app.context import JobContext
from penstock.errors import LeaseLost, PenstockError
from penstock.kernel.job import Job


class Run:
    """A job that a worker holds, with the task that runs it."""

    __slots__ = (
        "context",
        "given_back",
        "held_since",
        "is_over",
        "job",
        "lost",
        "needs_process",
        "started_at",
        "task",
    )

    def __init__(
        self, job: Job, context: JobContext, held_since: float, *, needs_process: bool
    ) -> None:
        self.job = job
        self.context = context
        self.held_since = held_since
        """From when the lease surely counts: before it was asked for."""
        self.started_at = held_since
        self.needs_process = needs_process
        self.task: asyncio.Task[Any] | None = None
        self.lost: PenstockError | None = None
        """Why the lease is gone, once it is."""
        self.given_back = False
        self.is_over = False
        """The attempt's end was told although its handler goes on: it ignores cancellation."""

    @property
    def is_held(self) -> bool:
        """Whether the lease is still worth a heartbeat."""
        return self.lost is None and not self.given_back and not self.is_over

    def lose(self, reason: PenstockError) -> None:
        """The lease is gone: the handler is to stop, its result counts for nothing."""
        self.lost = reason
        self._interrupt(reason)

    def give_back(self) -> None:
        """The worker stops: the handler is to stop, the job goes back to the queue."""
        self.given_back = True
        self._interrupt(LeaseLost(self.job.id))

    def abandon(self) -> None:
        """The handler was told to stop and did not: it is left to itself."""
        self.is_over = True
        self.context.stop(LeaseLost(self.job.id))

    def _interrupt(self, reason: PenstockError) -> None:
        self.context.stop(reason)
        if self.task is not None:
            self.task.cancel()
