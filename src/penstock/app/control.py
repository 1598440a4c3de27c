"""What a handler may raise to say how its attempt ended."""

from __future__ import annotations

from datetime import datetime

from penstock.client.newjob import epoch_seconds
from penstock.errors import InvalidInput
from penstock.errors.root import Travelling
from penstock.kernel.plain import plain_seconds


class HandlerSignal(Travelling):
    """Not an error of the worker but a word of the handler's."""


class Retry(HandlerSignal):
    """Try again, after this many seconds in place of the policy's backoff. Counts as a failure.

    `after` is in seconds, `message` is kept as the attempt's error.
    """

    def __init__(self, message: str = "the handler asked for a retry", *, after: float) -> None:
        super().__init__(message)
        self.after = plain_seconds("after", after)


class Permanent(HandlerSignal):
    """Trying again makes no sense: the job fails at once."""


class Snooze(HandlerSignal):
    """Not now: come back at that time, or after that many seconds. Counts no failure.

    `until` is a time, `seconds` a span; give one of them.
    """

    def __init__(
        self, *, until: float | datetime | None = None, seconds: float | None = None
    ) -> None:
        if (until is None) == (seconds is None):
            raise InvalidInput("Snooze takes either until=… or seconds=…")
        super().__init__("the handler asked to come back later")
        self.until = None if until is None else epoch_seconds("until", until)
        self.seconds = None if seconds is None else plain_seconds("seconds", seconds)
