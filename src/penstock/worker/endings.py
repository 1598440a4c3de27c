"""How an attempt ended, and what the queue is to be told about it."""

from __future__ import annotations

import asyncio
from traceback import format_exception
from typing import Any, TypeAlias

from msgspec import Struct

from penstock.app.control import Permanent, Retry, Snooze
from penstock.client.tracebacks import traceback_of
from penstock.errors import ArgumentsInvalid, ChildExited, PenstockError, UnknownType
from penstock.kernel.job import Job, State
from penstock.kernel.plain import describe


class Succeeded(Struct, frozen=True, gc=False):
    job: Job
    result: Any
    codec: str | None = None


class FailedAttempt(Struct, frozen=True):
    job: Job
    error: BaseException
    kind: str
    retry: bool = True
    delay_seconds: float | None = None

    @property
    def message(self) -> str:
        name, words = type(self.error).__name__, describe(self.error)
        # An error without words, or one that can't be shown, is described by its name already.
        return words if words.startswith(name) else f"{name}: {words}"

    @property
    def is_final(self) -> bool:
        """Whether it was the last attempt: the queue has said so when it was told."""
        return self.job.state is State.FAILED

    @property
    def loggable_error(self) -> BaseException:
        """The error, or one like it whose words every log can take: not all text is writable."""
        try:
            "".join(format_exception(self.error)).encode()
        except Exception:  # noqa: BLE001  # it may be anything, and so may its words
            return RuntimeError(self.message).with_traceback(self.error.__traceback__)
        return self.error

    @property
    def traceback(self) -> str | None:
        return traceback_of(self.error)


class GivenBack(Struct, frozen=True):
    job: Job
    until: float | None = None


class Stalled(Struct, frozen=True):
    """The lease was lost or the job cancelled: there is nothing left to tell the queue."""

    job: Job
    reason: PenstockError


Ending: TypeAlias = Succeeded | FailedAttempt | GivenBack | Stalled


def ending_of(job: Job, error: BaseException, now: float) -> Ending:
    """What an exception of the handler means."""
    match error:
        case Retry():
            return FailedAttempt(job, error, "retry", delay_seconds=error.after)
        case Snooze():
            until = error.until if error.until is not None else now + (error.seconds or 0.0)
            return GivenBack(job, until)
        case Permanent():
            return FailedAttempt(job, error, "permanent", retry=False)
        case ArgumentsInvalid():
            return FailedAttempt(job, error, "arguments", retry=False)
        case UnknownType():
            return FailedAttempt(job, error, "unknown_type", retry=False)
        case asyncio.CancelledError():
            # Nobody asked for it: the handler cancelled itself.
            return FailedAttempt(job, error, "cancelled_itself")
        case SystemExit() | KeyboardInterrupt() | ChildExited():
            # A handler ends its attempt, not the worker.
            return FailedAttempt(job, error, "exit")
        case BaseExceptionGroup() if error.subgroup(ChildExited) is not None:
            return FailedAttempt(job, error, "exit")
        case _:
            return FailedAttempt(job, error, "error")


def timed_out(job: Job, where: BaseException | None = None) -> FailedAttempt:
    """`where` the handler was cancelled, if it was: that is what its traceback tells."""
    limit = TimeoutError(f"the attempt took longer than {job.timeout_seconds:g} s")
    limit.__cause__ = where
    return FailedAttempt(job, limit, "timeout")
