"""How far the events of every object go: for readers who keep count of each by itself.

An object's events only ever grow at their end: a put takes what it read, adds above everything in
it, and is refused if somebody was faster. So a position per object says exactly what a reader has
had of it, however late something is stored and whatever the clocks say. An opening is no event
before it is among them, so it need not be settled here. Nothing is written, and no clock is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from penstock.engines.records.tasks import charter, stories
from penstock.engines.records.tasks.documents import Documents, in_parallel
from penstock.engines.records.tasks.names import CHARTER, TASKS
from penstock.errors import Corrupt
from penstock.kernel.events import Event
from penstock.ports.store import ObjectStore
from penstock.runtime.services import Services
from penstock.wire.task import (
    CharterObject,
    Task,
    decode_charter_object,
    decode_task,
    encode_charter_object,
    encode_task,
)

logger = logging.getLogger(__name__)

OBJECTS_PER_READ: Final = 500


class Found(Struct, frozen=True):
    """The objects as somebody found them who knew them before."""

    further: dict[str, int]
    """By key, where the last event of an object stands, if that is further than was known."""
    gone: frozenset[str]
    """Keys that were known and are there no more."""


class Reaches:
    def __init__(self, store: ObjectStore, services: Services) -> None:
        self._store = store
        self._tasks: Documents[Task] = Documents(store, services, encode_task, decode_task)
        self._charter: Documents[CharterObject] = Documents(
            store, services, encode_charter_object, decode_charter_object
        )

    async def found(self, known: Mapping[str, int]) -> Found:
        keys = [CHARTER, *[entry.key async for entry in self._store.list(TASKS)]]
        further: dict[str, int] = {}
        for first in range(0, len(keys), OBJECTS_PER_READ):
            some = keys[first : first + OBJECTS_PER_READ]
            for key, events in zip(some, await in_parallel(self._readable, some), strict=True):
                if events and events[-1].position > known.get(key, 0):
                    further[key] = events[-1].position
                    _warn_of_trimmed(key, events, known.get(key, 0))
        return Found(further, frozenset(known) - frozenset(keys))

    async def events(self, key: str) -> Sequence[Event] | None:
        """Those that an object has; None if it is not there."""
        documents: Documents[Task] | Documents[CharterObject]
        documents = self._charter if key == CHARTER else self._tasks
        kept = await documents.read(key)
        return None if kept is None else kept.document.events

    async def _readable(self, key: str) -> Sequence[Event]:
        try:
            return await self.events(key) or ()
        except Corrupt as error:
            # It must not hold up all others: what it has is news once it was repaired.
            logger.warning("an object is left out until it can be read: %s", error)
            return ()


def _warn_of_trimmed(key: str, events: Sequence[Event], known: int) -> None:
    kept_max = charter.EVENTS_KEPT if key == CHARTER else stories.EVENTS_KEPT
    # The first one that is kept of a task may be older than the rest: it has the payload.
    if len(events) >= kept_max and known < events[1].position:
        logger.warning("%s keeps its newest %d events: older ones are not read", key, kept_max)
