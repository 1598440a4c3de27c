"""Arithmetic on times that gives the same in every session, whatever its time zone."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

MICROSECONDS: Final = 1_000_000
MINUTE_SECONDS: Final = 60
HOUR_SECONDS: Final = 3_600
DAY_SECONDS: Final = 86_400


def bucket(at: Column, seconds: int) -> Column:
    """The beginning of the minute, hour or day that a time is in, in UTC."""
    return F.timestamp_micros(_floored(at, seconds))


def date(at: Column) -> Column:
    days = _floored(at, DAY_SECONDS) / F.lit(DAY_SECONDS * MICROSECONDS)
    return F.date_from_unix_date(days.cast("int"))


def seconds_between(start: Column, end: Column) -> Column:
    return (F.unix_micros(end) - F.unix_micros(start)) / F.lit(float(MICROSECONDS))


def seconds_added(seconds: Column) -> Column:
    """A sum that does not depend on the order: of whole microseconds, as durations are."""
    whole = F.round(seconds * MICROSECONDS).cast("long")
    return F.sum(whole) / F.lit(float(MICROSECONDS))


def _floored(at: Column, seconds: int) -> Column:
    microseconds = F.unix_micros(at)
    return microseconds - F.pmod(microseconds, F.lit(seconds * MICROSECONDS))
