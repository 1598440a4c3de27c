"""What a handler can know and say about the job it is running."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Any

from penstock.errors import InvalidInput, PenstockError
from penstock.kernel.job import Job


class JobContext:
    """The job at hand. Declare a parameter of this type, or ask `penstock.current_job()`."""

    def __init__(self, job: Job, state: Any) -> None:
        self.job = job
        self.state = state
        """What the app's start hooks have put there."""
        self.reported: float | None = None
        """The progress that no heartbeat has carried yet."""
        self._reason: PenstockError | None = None

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """Writes to `penstock.task.…` and says with every line which job it is about."""
        facts = {"job": self.job.id, "attempt": self.job.attempt, "tenant": self.job.tenant}
        return logging.LoggerAdapter(logging.getLogger(f"penstock.task.{self.job.type}"), facts)

    @property
    def id(self) -> str:
        return self.job.id

    @property
    def attempt(self) -> int:
        return self.job.attempt

    @property
    def tenant(self) -> str:
        return self.job.tenant

    @property
    def fence(self) -> int:
        """A number that grows with every lease of the queue, for systems that can compare it."""
        assert self.job.lease is not None
        return self.job.lease.fence

    def progress(self, fraction: float) -> None:
        """Says how far the work is, from 0 to 1; it travels with the next heartbeat."""
        if not 0 <= fraction <= 1:
            raise InvalidInput(f"progress({fraction!r}): a number from 0 to 1")
        self.reported = float(fraction)

    @property
    def is_cancelled(self) -> bool:
        """Whether the work is for nothing: the job was cancelled or its lease lost.

        A handler that runs in a thread can't be interrupted and should look now and then.
        """
        return self._reason is not None

    def raise_if_cancelled(self) -> None:
        if self._reason is not None:
            raise self._reason

    def stop(self, reason: PenstockError) -> None:
        """The worker's word that the lease is gone."""
        self._reason = reason


_current: ContextVar[JobContext] = ContextVar("penstock_job")


def current_job() -> JobContext:
    """The job that the calling handler runs; a `LookupError` outside of one."""
    try:
        return _current.get()
    except LookupError:
        raise LookupError("no job is running here: call it inside a task") from None


def enter(context: JobContext) -> None:
    """Makes it the current one, for this task or thread and what it starts."""
    _current.set(context)
