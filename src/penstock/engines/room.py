"""Vacuuming where there is no room: first what needs no write, then with a reserve.

To let something go takes a write: the clocks are compared, the floor is raised, a commit forbids
what is to be swept. On a full disk even that much may be missing. So leftovers of probes go first,
and a store that keeps a reserve gives it up for the time that the vacuum takes.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from penstock.engines.names import PROBES
from penstock.errors import StoreFull
from penstock.ports.store import ObjectStore, Reserving

logger = logging.getLogger(__name__)

Report = TypeVar("Report")

PROBE_SECONDS_MAX: Final = 3_600.0
"""A probe takes seconds; what is older was left by a process that died."""


async def keep_reserve(store: ObjectStore) -> None:
    """Sees to it that there is one, where a store can have it and has room."""
    if isinstance(store, Reserving):
        await store.keep_reserve()


async def vacuum_with_reserve(
    store: ObjectStore, now: float, vacuum: Callable[[], Awaitable[Report]]
) -> Report:
    """`vacuum` may be called twice, so it begins with what needs no write."""
    try:
        await _delete_old_probes(store, now)
        report = await vacuum()
    except StoreFull:
        if not (isinstance(store, Reserving) and await store.give_up_reserve()):
            raise
        logger.warning("%s is full; the reserve is given up to make room", store.name)
        report = await vacuum()
    await keep_reserve(store)
    return report


async def _delete_old_probes(store: ObjectStore, now: float) -> None:
    old = now - PROBE_SECONDS_MAX
    for key in [entry.key async for entry in store.list(PROBES) if entry.modified_at < old]:
        await store.delete(key)
