"""The charter's object: settings, pauses and registered readers, with the events about them.

It is in no job's way: what is read of it may be a few seconds old. Only claims look at it each
time, beside what they have to look for anyway; hence a pause takes hold with the claims that begin
after it, and of those under way some may yet succeed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from penstock.engines.calibration import CommitClock
from penstock.engines.records.tasks.decisions import Decider
from penstock.engines.records.tasks.documents import Documents, Kept
from penstock.engines.records.tasks.names import CHARTER
from penstock.engines.records.tasks.turns import (
    RETRY_SECONDS,
    RETRY_SECONDS_MAX,
    TURNS_LOST_MAX,
    TurnsLost,
)
from penstock.engines.requests import Work
from penstock.kernel.events import Event, QueueEvent
from penstock.ports.store import ObjectStore
from penstock.runtime.services import Services
from penstock.wire.record import Charter
from penstock.wire.task import CharterObject, decode_charter_object, encode_charter_object

FRESH_SECONDS: Final = 5.0
EVENTS_KEPT: Final = 1_000


class CharterStore:
    def __init__(
        self,
        store: ObjectStore,
        services: Services,
        clock: CommitClock,
        decider: Decider,
        tell: Callable[[Sequence[Event]], None],
    ) -> None:
        self._documents: Documents[CharterObject] = Documents(
            store, services, encode_charter_object, decode_charter_object
        )
        self._store = store
        self._services = services
        self._clock = clock
        self._decider = decider
        self._tell = tell
        self._kept: Kept[CharterObject] | None = None
        self._read_at = float("-inf")

    @property
    def object(self) -> CharterObject:
        return CharterObject() if self._kept is None else self._kept.document

    @property
    def current(self) -> Charter:
        return self.object.charter

    async def refresh(self) -> None:
        self._kept = await self._documents.read(CHARTER)
        self._read_at = self._services.clock.elapsed()

    async def keep_fresh(self) -> None:
        if self._services.clock.elapsed() - self._read_at > FRESH_SECONDS:
            await self.refresh()

    async def take(self, work: Work) -> Any:
        """A turn on what holds for the whole queue."""
        answer: Any = None

        def decide(found: CharterObject) -> tuple[CharterObject, Sequence[Event]]:
            nonlocal answer
            above = found.events[-1].position if found.events else 0
            answer, events, charter = self._decider.on_charter(
                work, found.charter, above, self._clock.now()
            )
            said = [event for event in events if isinstance(event, QueueEvent)]
            kept = (*found.events, *said)[-EVENTS_KEPT:]
            return replace(found, charter=charter, events=kept), events

        await self.change(decide)
        return answer

    async def change(
        self, decide: Callable[[CharterObject], tuple[CharterObject, Sequence[Event]]]
    ) -> None:
        """Replaces it by what is decided on it, unless that is the same."""
        backoff = self._services.backoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
        for _ in range(TURNS_LOST_MAX):
            await self.refresh()
            before = self.object
            after, events = decide(before)
            if after == before:
                return
            put = await self._documents.put(CHARTER, self._kept, after)
            if put is not None:
                self._kept = put if put.version is not None else self._kept
                self._tell(events)
                return
            await self._services.clock.sleep(backoff.next_seconds())
        raise TurnsLost(self._store.name, CHARTER, f"{TURNS_LOST_MAX} turns in a row were lost")
