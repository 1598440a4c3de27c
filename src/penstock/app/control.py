"""What a handler may raise to say how its attempt ended."""

from __future__ import annotations

from datetime import datetime

from penstock.client.newjob import check_seconds, epoch_seconds
from penstock.errors import InvalidInput
from penstock.errors.root import Travelling


class HandlerSignal(Travelling):
    """Not an error of the worker but a word of the handler's."""


class Retry(HandlerSignal):
    """Try again, after this many seconds in place of the policy's backoff. Counts as a failure."""

    def __init__(self, message: str = "the handler asked for a retry", *, after: float) -> None:
        check_seconds("after", after)
        super().__init__(message)
        self.after = after


class Permanent(HandlerSignal):
    """Trying again makes no sense: the job fails at once."""


class Snooze(HandlerSignal):
    """Not now: come back at that time, or after that many seconds. Counts no failure."""

    def __init__(
        self, *, until: float | datetime | None = None, seconds: float | None = None
    ) -> None:
        if (until is None) == (seconds is None):
            raise InvalidInput("Snooze takes either until=… or seconds=…")
        if seconds is not None:
            check_seconds("seconds", seconds)
        super().__init__("the handler asked to come back later")
        self.until = None if until is None else epoch_seconds("until", until)
        self.seconds = seconds
