"""How several writers of one log share it without a coordinator, and none starves.

A commit is a race for the next slot, and a race is won by whoever is faster: a writer near the
store would win every time. So a winner who knows of others holds back before its next commit for as
long as the slowest of them needs to read the new tail and put its own. It knows of others by
their commits, and by `knock`: a tiny object that a writer puts after losing several times in a
row, with the round trip that it measured. Busy writers look for it every few commits. A lone
writer pays one small GET in that many commits, and never waits.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from penstock.errors import ObjectNotFound, StoreError
from penstock.ports.clock import Clock
from penstock.ports.store import ObjectStore, Overwrite
from penstock.wire.level import UNREADABLE

LOSSES_BEFORE_KNOCK: Final = 3
WINS_BETWEEN_LOOKS: Final = 16
CONTENTION_SECONDS: Final = 5.0
"""How long others are expected to be still there after they were last noticed. To say that one
leaves would take a write; who has not committed for this long is in nobody's way, there or not."""
KNOCK_SECONDS: Final = 30.0
"""After this long a knock is taken for a left-over."""
_ROUND_TRIPS: Final = 2.5
"""A loser reads the tail and puts its own: two trips, and some for deciding in between."""
_PAUSE_SECONDS_MAX: Final = 2.0
_SMOOTHING: Final = 0.2


class Knock(Struct, frozen=True):
    writer: str
    round_trip_seconds: float


class Courtesy:
    def __init__(self, store: ObjectStore, key: str, writer: str, clock: Clock) -> None:
        self._store = store
        self._key = key
        self._writer = writer
        self._clock = clock
        self._round_trip_seconds = 0.0
        self._slowest_seconds = 0.0
        self._noticed_at = float("-inf")
        self._won_at = float("-inf")
        self._wins = 0
        self._losses = 0
        self._has_knocked = False

    async def before_put(self) -> None:
        """Waits for one's turn, if there are others."""
        now = self._clock.elapsed()
        if now - self._noticed_at > CONTENTION_SECONDS:
            self._slowest_seconds = 0.0
            return
        pace = _ROUND_TRIPS * max(self._round_trip_seconds, self._slowest_seconds)
        rest = self._won_at + min(pace, _PAUSE_SECONDS_MAX) - now
        if rest > 0:
            await self._clock.sleep(rest)

    def measured(self, seconds: float) -> None:
        """One put took this long."""
        if self._round_trip_seconds == 0.0:
            self._round_trip_seconds = seconds
        self._round_trip_seconds += _SMOOTHING * (seconds - self._round_trip_seconds)

    def saw_another(self) -> None:
        self._noticed_at = self._clock.elapsed()

    def opened(self) -> None:
        """What others committed before is history; if they still do, a lost race will tell."""
        self._noticed_at = float("-inf")

    async def won(self) -> None:
        self._won_at = self._clock.elapsed()
        self._losses = 0
        self._wins += 1
        if self._has_knocked:
            self._has_knocked = False
            await self._quietly(self._store.delete(self._key))
        elif self._wins % WINS_BETWEEN_LOOKS == 0:
            await self._look()

    async def lost(self) -> None:
        self.saw_another()
        self._losses += 1
        if self._losses % LOSSES_BEFORE_KNOCK == 0:
            await self.knock()

    async def knock(self) -> None:
        """Asks the others to wait for one that is as slow as this."""
        self._has_knocked = True
        knock = Knock(self._writer, self._round_trip_seconds)
        await self._quietly(self._store.put(self._key, msgspec.json.encode(knock), Overwrite()))

    async def _look(self) -> None:
        try:
            found = await self._store.get(self._key)
            knock = msgspec.json.decode(found.data, type=Knock)
        except (ObjectNotFound, *UNREADABLE):
            return
        except StoreError:
            # Only politeness is at stake; the next look is a few commits away.
            return
        is_fresh = self._clock.now() - found.modified_at < KNOCK_SECONDS
        if knock.writer != self._writer and is_fresh:
            self.saw_another()
            self._slowest_seconds = max(self._slowest_seconds, knock.round_trip_seconds)

    async def _quietly(self, request: object) -> None:
        try:
            await request  # type: ignore[misc]  # an awaitable of any value
        except StoreError:
            # A knock that did not arrive is repeated after the next losses.
            return
