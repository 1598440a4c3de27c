"""Arithmetic on times that gives the same in every session, whatever its time zone."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf

MICROSECONDS: Final = 1_000_000
MINUTE_SECONDS: Final = 60
HOUR_SECONDS: Final = 3_600
DAY_SECONDS: Final = 86_400


def bucket(at: Column, seconds: int) -> Column:
    """The beginning of the minute, hour or day that a time is in, in UTC."""
    return sf.timestamp_micros(_floored(at, seconds))


def date(at: Column) -> Column:
    days = _floored(at, DAY_SECONDS) / sf.lit(DAY_SECONDS * MICROSECONDS)
    return sf.date_from_unix_date(days.cast("int"))


def seconds_between(start: Column, end: Column) -> Column:
    return (sf.unix_micros(end) - sf.unix_micros(start)) / sf.lit(float(MICROSECONDS))


def seconds_added(seconds: Column) -> Column:
    """A sum that does not depend on the order: of whole microseconds, as durations are."""
    whole = sf.round(seconds * MICROSECONDS).cast("long")
    return sf.sum(whole) / sf.lit(float(MICROSECONDS))


def _floored(at: Column, seconds: int) -> Column:
    microseconds = sf.unix_micros(at)
    return microseconds - sf.pmod(microseconds, sf.lit(seconds * MICROSECONDS))
