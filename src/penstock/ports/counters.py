"""Counters of a store of records: what a turn adds to them, and what whoever looks is told.

A turn writes differences with its records, all or nothing, so that looking costs nothing per job.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from penstock.kernel.job import State

MINUTE_SECONDS: Final = 60
_MINUTES_MAX: Final = 2**53
"""Far beyond any time; what is due after that counts as due then."""


def minute_of(at: float) -> int:
    return int(min(at // MINUTE_SECONDS, _MINUTES_MAX))


class CountChange(Struct, frozen=True, gc=False):
    """A difference: jobs of a type that ever were in the queue by state, and those that left."""

    tenant: str
    queue: str
    type: str
    state: State
    now: int
    left: int


class DueChange(Struct, frozen=True, gc=False):
    """A difference: pending records that come due in a minute (`minute_of`) yet to begin.

    Only time makes a scheduled record a ready one, and no turn is taken for that. So these are
    counted by when they will be; what is due in the minute that goes on is counted when somebody
    asks. Minutes that have begun by the time of a change do not matter any more and are not in it.
    """

    tenant: str
    queue: str
    type: str
    minute: int
    records: int


class Count(Struct, frozen=True):
    queue: str
    state: State
    now: int
    left: int


class Waiting(Struct, frozen=True):
    """The pending records of one type in one queue, as of a time."""

    queue: str
    type: str
    pending: int
    oldest_at: float
    """The earliest time that one of them was or will be due."""
    scheduled: int
    """How many are not due yet."""


class Survey(Struct, frozen=True):
    """What there is to count of one tenant, as of one moment."""

    commit: int
    counts: list[Count]
    waiting: list[Waiting]
    state_bytes: int | None = None
    """How large the store is, all tenants together; None where that is not known at once."""
    events_behind: int = 0
    """How many commit numbers lie between the newest and the newest that can be read."""
