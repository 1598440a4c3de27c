"""The charter's object: settings, pauses and registered readers, with the events about them.

It is in no job's way: what is read of it may be a few seconds old. Only claims look at it each
time, just before they take something; hence a pause takes hold with the claims that begin after it,
and of those under way some may yet succeed. What must not happen in a queue that a move has closed
is looked at again afterwards (`still_open`), and is not answered if it came too late.

It also has the time, as whoever writes has noted it every few minutes. No job goes by that: each
has its own. But whoever opens the queue can tell by it that a clock which was ahead was here, and
whoever follows the events, that positions were given which others will only come to.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Final

from msgspec.structs import replace

from penstock.engines.calibration import CommitClock
from penstock.engines.records.tasks.decisions import Decider
from penstock.engines.records.tasks.documents import Documents, Kept
from penstock.engines.records.tasks.names import CHARTER
from penstock.engines.records.tasks.positions import position_at, time_of
from penstock.engines.records.tasks.turns import (
    RETRY_SECONDS,
    RETRY_SECONDS_MAX,
    TURNS_LOST_MAX,
    TurnsLost,
)
from penstock.engines.requests import Work
from penstock.errors import FormatError, PenstockError
from penstock.kernel.events import Event, QueueEvent
from penstock.kernel.moves import Move, under_way
from penstock.kernel.stamps import SET_BACK_SECONDS, THE_BEGINNING, Stamp, next_stamp
from penstock.ports.store import ObjectStore
from penstock.runtime.services import Services
from penstock.wire.record import Charter
from penstock.wire.seen import Seen
from penstock.wire.task import (
    CharterObject,
    Task,
    decode_charter_object,
    encode_charter_object,
)

logger = logging.getLogger(__name__)

FRESH_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 120.0
"""How old it may be for those who find nothing to do. They read it before they do something."""
EVENTS_KEPT: Final = 1_000
NOTE_SECONDS: Final = 300.0
"""How old the time that was noted gets, or up to twice that: not all who write note it at once."""
SET_BACKS_KEPT: Final = 8
DELETION_SECONDS: Final = 120.0
"""A deletion that somebody has seen for so long is over: if whoever does it has not said so, then
because it died. Nothing that it has sent is still under way (`deleting`)."""


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
        self._looking = asyncio.Lock()
        self._begun = self._shown = 0
        """Readings are counted as they begin: an earlier one never hides what a later one saw."""
        self._note_seconds = NOTE_SECONDS * (1 + services.luck())
        self._deletion_seen = ("", 0.0)
        """The deletion that is announced, and since when this process has known."""

    @property
    def object(self) -> CharterObject:
        return CharterObject() if self._kept is None else self._kept.document

    @property
    def current(self) -> Charter:
        return self.object.charter

    @property
    def swept_before(self) -> float:
        return self.current.swept_before

    async def refresh(self) -> None:
        self._begun += 1
        number = self._begun
        try:
            kept = await self._documents.read(CHARTER)
        except FormatError:
            # Nobody goes on by what was read before.
            self._read_at = float("-inf")
            raise
        if number > self._shown:
            self._kept, self._shown = kept, number
            self._read_at = self._services.clock.elapsed()
            self._watch_deletion()

    async def keep_fresh(self) -> None:
        # Of a closed queue nobody is told anything but that, so it has to be true.
        if self._age_seconds > FRESH_SECONDS or self.move is not None:
            await self.refresh()

    async def keep_fresh_for_looks(self) -> None:
        """For those who read it again before they take what they find.

        What is paused or closed may not be any more, and they would find nothing.
        """
        if self._age_seconds > IDLE_SECONDS or self.current.paused or self.move is not None:
            await self.keep_fresh()

    @property
    def _age_seconds(self) -> float:
        return self._services.clock.elapsed() - self._read_at

    @property
    def move(self) -> Move | None:
        """The move that closes the queue, as far as is known."""
        return under_way(self.current.moves)

    @property
    def is_sealed(self) -> bool:
        """Whether a move has closed the queue, and each of its tasks."""
        return self.move is not None and self.object.sealed == self.move.id

    def is_late(self, task: Task | Seen) -> bool:
        """Whether it came into a closed queue, where it will never have been."""
        return self.is_sealed and not task.sealed

    def require_open(self) -> None:
        """Refuses what is asked of a closed queue, as far as is known."""
        if self.move is not None:
            raise self.move.refusal()

    async def note_time(self) -> None:
        """Leaves a mark of the time if the last one is old, or ahead."""
        stamp, now = self.object.stamp, self._clock.now()
        if stamp is None or now - stamp.clock > self._note_seconds:
            await self._note_time(stamp, now)
        else:
            await self.note_set_back()

    async def note_set_back(self) -> None:
        """Leaves a mark if the last one is ahead: the clock was set back since."""
        stamp, now = self.object.stamp, self._clock.now()
        if stamp is not None and now < stamp.clock - SET_BACK_SECONDS:
            await self._note_time(stamp, now)

    async def _note_time(self, stamp: Stamp | None, now: float) -> None:
        if self.move is not None:
            return
        self._note_seconds = NOTE_SECONDS * (1 + self._services.luck())

        def note(found: CharterObject) -> tuple[CharterObject, Sequence[Event]]:
            if found.stamp != stamp:
                # Somebody else was here.
                return found, ()
            set_backs, after = found.set_backs, next_stamp(stamp or THE_BEGINNING, now)
            if stamp is not None and after.was_set_back_since(stamp):
                set_backs = (*set_backs, Stamp(stamp.at, after.clock))[-SET_BACKS_KEPT:]
            return replace(found, stamp=after, set_backs=set_backs), ()

        try:
            await self.change(note)
        except PenstockError as error:
            # What was asked for need not fail for it; the next one will note it.
            logger.info("the time of the queue was not noted: %s", error)

    def told_by(self, since: int) -> int:
        """The position, or an earlier one: below it is all that was stored when it was told.

        One from the future was given by a clock that was ahead. What others have stored since
        stands below it, and not before the clock was found to be set back.
        """
        at, margin_seconds = time_of(since), 2 * NOTE_SECONDS
        if at <= self._clock.now() + SET_BACK_SECONDS:
            return since
        found = [one.clock for one in self.object.set_backs if at <= one.at + margin_seconds]
        return min([since, *(position_at(clock - margin_seconds) for clock in found)])

    def time_at_opening(self) -> Stamp:
        """The time of the queue, by what was noted and this process's clock."""
        return next_stamp(self.object.stamp or THE_BEGINNING, self._clock.now())

    async def outlive(self, key: str) -> None:
        """Waits until no delete of this object can be under way; it was spared before the call."""
        backoff = self._services.backoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
        while True:
            await self.refresh()
            deletion = self.object.deletion
            if deletion is None or key not in deletion.tasks or self.is_deletion_over:
                return
            await self._services.clock.sleep(backoff.next_seconds())

    @property
    def is_deletion_over(self) -> bool:
        """Whether the one that is announced ended by itself, as far as this process has seen."""
        # By what has elapsed here: no clock is believed, neither this one nor the announcer's.
        since = self._deletion_seen[1]
        return self._services.clock.elapsed() - since >= DELETION_SECONDS

    def _watch_deletion(self) -> None:
        deletion = self.object.deletion
        if deletion is not None and deletion.id != self._deletion_seen[0]:
            self._deletion_seen = deletion.id, self._services.clock.elapsed()

    async def still_open(self) -> bool:
        """Whether the queue was open at some time after the call; many who ask share a look."""
        begun = self._begun
        async with self._looking:
            if self._shown <= begun:
                await self.refresh()
        return self.move is None

    async def take(self, work: Work, known: Callable[[Charter], Charter] = copy) -> Any:
        """A turn on what holds for the whole queue; `known` adds what is to be decided on."""
        answer: Any = None

        def decide(found: CharterObject) -> tuple[CharterObject, Sequence[Event]]:
            nonlocal answer
            above = max([0, *(event.position for event in found.events[-1:])])
            above = max([above, *(move.position for move in found.charter.moves)])
            answer, events, charter = self._decider.on_charter(
                work, known(found.charter), above, self._clock.now()
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
            # Nothing is waited for from here on until it is decided: what is slept over is old.
            await self._clock.ready_to_write(self.current.settings.clock_skew_seconds)
            before = self.object
            after, events = decide(before)
            if after == before:
                return
            put = await self._documents.put(CHARTER, self._kept, after)
            if put is not None:
                if put.version is not None:
                    self._kept, self._shown = put, self._begun
                    self._watch_deletion()
                self._tell(events)
                return
            await self._services.clock.sleep(backoff.next_seconds())
        raise TurnsLost(self._store.name, CHARTER, f"{TURNS_LOST_MAX} turns in a row were lost")
