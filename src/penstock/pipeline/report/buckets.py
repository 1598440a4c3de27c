"""How finely time is cut: by the minute, the hour or the day, whichever leaves a readable plot."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final


class Bucket(StrEnum):
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"

    @property
    def length(self) -> timedelta:
        return _LENGTHS[self]

    def start_of(self, at: datetime) -> datetime:
        at = at.replace(second=0, microsecond=0)
        if self is not Bucket.MINUTE:
            at = at.replace(minute=0)
        return at.replace(hour=0) if self is Bucket.DAY else at

    def starts(self, first: datetime, until: datetime) -> Iterator[datetime]:
        """Every bucket that meets the span; `until` itself is outside."""
        at = self.start_of(first)
        while at < until:
            yield at
            at += self.length


_LENGTHS: Final = {
    Bucket.MINUTE: timedelta(minutes=1),
    Bucket.HOUR: timedelta(hours=1),
    Bucket.DAY: timedelta(days=1),
}

MINUTES_UP_TO: Final = timedelta(hours=4)
HOURS_UP_TO: Final = timedelta(days=10)


def bucket_for(length: timedelta, finest: Bucket = Bucket.MINUTE) -> Bucket:
    if length <= MINUTES_UP_TO and finest is Bucket.MINUTE:
        return Bucket.MINUTE
    return Bucket.HOUR if length <= HOURS_UP_TO else Bucket.DAY
