"""Which commits a read is about."""

from __future__ import annotations

from math import inf, nextafter

from penstock.errors import Gap, InvalidOption
from penstock.kernel.events import position_of
from penstock.pipeline.source.chunks import Bounds, Span
from penstock.pipeline.source.opening import QueueSource
from penstock.pipeline.source.options import ReadOptions


async def plan(source: QueueSource, options: ReadOptions, bounds: Bounds) -> Span:
    """The span that the options speak of; `Gap` if a part of it was vacuumed."""
    span = Span(_first(options, bounds), _last(options, bounds))
    before = until_of(options)
    if not span or (options.since is None and before is None):
        return span
    narrow = await source.narrowed(span, options.since, before)
    if (
        bounds.floor > 1
        and options.from_commit is None
        and _may_reach_below(narrow, options, bounds)
    ):
        raise Gap(position_of(bounds.floor, 0) - 1, bounds.floor)
    return narrow


def _may_reach_below(narrow: Span, options: ReadOptions, bounds: Bounds) -> bool:
    """Whether the first commit that is left shows that vacuumed ones were within the time, too."""
    if options.since is not None and narrow.first == bounds.floor:
        return True
    return narrow.last < bounds.floor


def until_of(options: ReadOptions) -> float | None:
    """The time before which everything is that the options ask for."""
    if isinstance(options.as_of, float):
        # As of a time, what happened right then is seen.
        return nextafter(options.as_of, inf)
    return options.until


def _first(options: ReadOptions, bounds: Bounds) -> int:
    if options.from_commit is None:
        return bounds.floor
    if options.from_commit < bounds.floor:
        raise Gap(position_of(options.from_commit, 0), bounds.floor)
    return options.from_commit


def _last(options: ReadOptions, bounds: Bounds) -> int:
    for name in ("to_commit", "as_of"):
        last = getattr(options, name)
        if isinstance(last, int):
            if last > bounds.head:
                raise InvalidOption(name, last, f"the newest commit is {bounds.head}")
            if last < bounds.floor:
                raise Gap(position_of(last, 0), bounds.floor)
            return last
    return bounds.head
