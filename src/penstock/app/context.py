"""What a handler can know and say about the job it is running."""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping
from contextvars import ContextVar
from typing import Any

from msgspec import Struct

from penstock.client.arguments import progress_message
from penstock.errors import InvalidInput, PenstockError
from penstock.kernel.job import Job
from penstock.kernel.plain import plain_number


class Report(Struct, frozen=True):
    """How far an attempt says it is."""

    fraction: float
    message: str | None = None


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    """Says with every line which job it is about, beside the `extra` of the line itself."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, {**kwargs, "extra": {**(kwargs.get("extra") or {}), **(self.extra or {})}}


def facts_of(job: Job) -> dict[str, Any]:
    """What a line in a log says of the job that it is about."""
    facts = {"task": job.type, "job": job.id, "attempt": job.attempt, "tenant": job.tenant}
    facts["queue"] = job.queue
    return facts if job.trace is None else {**facts, "trace": job.trace}


class JobContext:
    """The job at hand. Declare a parameter of this type, or ask `penstock.current_job()`."""

    def __init__(self, job: Job, state: Any, has_news: Callable[[], None] | None = None) -> None:
        self.job = job
        self.state = state
        """What the app's start hooks have put there."""
        self._reported: Report | None = None
        self._told: Report | None = None
        self._has_news = has_news
        """Called, from whatever thread the handler is in, when there is progress to tell."""
        self._reason: PenstockError | None = None

    @property
    def logger(self) -> JobLogger:
        """Writes to `penstock.task.…` and says with every line which job it is about."""
        return JobLogger(logging.getLogger(f"penstock.task.{self.job.type}"), facts_of(self.job))

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

    def progress(self, fraction: float, message: str | None = None) -> None:
        """Says how far the work is: a `fraction` from 0 to 1, and a `message` of a few words.

        Readers see it about a second later; of several within a second they see the last. The
        message is cut after 200 characters.
        """
        number = plain_number("progress", fraction)
        if not 0 <= number <= 1:
            raise InvalidInput(f"progress({fraction!r}): a number from 0 to 1")
        words = None if message is None else progress_message(message)
        was_told = self.untold is None
        self._reported = Report(float(number), words)
        if was_told and self._has_news is not None:
            self._has_news()

    @property
    def untold(self) -> Report | None:
        """The progress that nobody else knows of yet."""
        reported = self._reported
        return None if reported is self._told else reported

    def tell(self, report: Report) -> None:
        """The worker's word that this `report` has been recorded."""
        self._told = report

    @property
    def is_cancelled(self) -> bool:
        """Whether the work is for nothing: the job was cancelled or its lease lost.

        A handler that runs in a thread can't be interrupted and should look now and then.
        """
        return self._reason is not None

    def raise_if_cancelled(self) -> None:
        """Raises why, if the work is for nothing: `JobCancelled` or `LeaseLost`."""
        if self._reason is not None:
            raise self._reason

    def stop(self, reason: PenstockError) -> None:
        """The worker's word that the lease is gone.

        `reason` is what `raise_if_cancelled` will raise.
        """
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
