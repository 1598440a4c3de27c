"""Filters of a query that reach the source, for those who switch that on.

Spark refuses to plan a source that takes filters unless `spark.sql.python.filterPushdown.enabled`
is true, so this is a reader of its own, picked by the option `pushdown`. A filter only narrows what
is read; Spark still applies all of them to what comes back.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from math import inf, nextafter
from typing import Any

import msgspec
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from penstock.pipeline.source.batch import PenstockReader
from penstock.pipeline.source.chunks import Span
from penstock.pipeline.source.opening import QueueSource
from penstock.pipeline.source.options import JOBS_TABLE, ReadOptions


class PushdownReader(PenstockReader):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._commits: tuple[float, float] = (-inf, inf)
        self._times: tuple[float, float] = (-inf, inf)

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        for filter in filters:
            self._take(filter)
            yield filter

    async def _narrowed(self, source: QueueSource, span: Span) -> Span:
        low, high = self._commits
        within = Span(int(max(span.first, low)), int(min(span.last, high)))
        since, until = self._times
        if not within or (since, until) == (-inf, inf):
            return within
        return await source.narrowed(within, since, nextafter(until, inf))

    def _take(self, filter: Filter) -> None:
        if isinstance(filter, EqualTo) and filter.attribute in (("tenant",), ("queue",)):
            [name] = filter.attribute
            self._options = msgspec.structs.replace(self._options, **{name: filter.value})
        elif (between := _between(filter)) is not None and self._options.table != JOBS_TABLE:
            attribute = filter.attribute  # type: ignore[attr-defined]  # those that compare have one
            if attribute == ("commit",):
                self._commits = _overlap(self._commits, between)
            elif attribute in (("at",), ("ended_at",)):
                self._times = _overlap(self._times, between)


def _between(filter: Filter) -> tuple[float, float] | None:
    """The numbers or times that a comparison lets through, both ends included."""
    match filter:
        case EqualTo():
            value = _number(filter.value)
            return None if value is None else (value, value)
        case GreaterThan() | GreaterThanOrEqual():
            value = _number(filter.value)
            return None if value is None else (value, inf)
        case LessThan() | LessThanOrEqual():
            value = _number(filter.value)
            return None if value is None else (-inf, value)
        case _:
            return None


def _number(value: Any) -> float | None:
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return value if isinstance(value, int | float) else None


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return max(one[0], other[0]), min(one[1], other[1])
