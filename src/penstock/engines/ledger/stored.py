"""What the journals of both stored layouts have in common, above all how an attempt is frozen.

A conditional put whose fate is unknown may still be applied, now or later. So the same bytes go to
the same place under the same condition until the store has said yes or no: nothing leaves or joins
the batch meanwhile. An error that says "certainly not applied" ends the attempt only if no put
before it was unknown. A no may be the echo of one's own yes; what to make of it is the layout's
business.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.engines.calibration import CommitClock, warn_of_time
from penstock.engines.ledger.courtesy import Courtesy
from penstock.engines.ledger.imports.objects import ImportObjects
from penstock.engines.ledger.journal import Head, Listener, ledger_capabilities, nothing_to_close
from penstock.engines.ledger.names import KNOCK
from penstock.engines.presence import Presence
from penstock.engines.side import SideObjects
from penstock.engines.watching import Watcher
from penstock.errors import PreconditionFailed, PutUnknown, StoreError
from penstock.kernel.stamps import THE_BEGINNING, Stamp
from penstock.kernel.state import QueueState
from penstock.ports.backend import Capabilities
from penstock.ports.store import ObjectStore, PutMode, Watchable, Written
from penstock.runtime.backoff import Backoff
from penstock.runtime.services import Services

_RETRY_SECONDS: Final = 0.05
_RETRY_SECONDS_MAX: Final = 2.0


class StoredJournal:
    def __init__(
        self, store: ObjectStore, services: Services, listener: Listener, *, watched: str
    ) -> None:
        self.state = QueueState()
        self.head = Head(0, THE_BEGINNING, "")
        self.on_close: Callable[[], Awaitable[None]] = nothing_to_close
        self.presence = Presence(store, services)
        self.imports = ImportObjects(store, services)
        self.clock = CommitClock(store, services)
        self._store = store
        self._services = services
        self._listener = listener
        self._writer = services.new_secret()
        self._courtesy = Courtesy(store, KNOCK, self._writer, services.clock)
        self._watcher = Watcher(store, watched, services)
        self._side = SideObjects(store, services, self.clock, lambda: self.state.swept_before)

    @property
    def capabilities(self) -> Capabilities:
        return ledger_capabilities(
            self._store.name,
            push=isinstance(self._store, Watchable),
            multi_process=True,
            durability="strict",
        )

    async def close(self) -> None:
        await self._watcher.stop()
        await self.imports.stop()
        await self.on_close()

    def stamp(self) -> Stamp:
        return self.clock.stamp(self.head.stamp)

    def _warn_of_time(self) -> None:
        """Once opened: says so where commit time is ahead of this clock."""
        warn_of_time(self._store.name, self.stamp())

    def turn(self) -> contextlib.nullcontext[None]:
        return contextlib.nullcontext()

    async def changed(self, timeout_seconds: float) -> None:
        await self._watcher.changed(timeout_seconds)

    async def keep(self, id: str, data: bytes) -> str:
        await self.ready_to_write()
        return await self._side.keep(id, data)

    async def fetch(self, key: str) -> bytes:
        return await self._side.fetch(key)

    def _backoff(self) -> Backoff:
        return self._services.backoff(_RETRY_SECONDS, _RETRY_SECONDS_MAX)

    async def ready_to_write(self) -> None:
        await self.clock.ready_to_write(self.state.settings.clock_skew_seconds)

    async def _put_frozen(self, key: str, data: bytes, mode: PutMode) -> Written | None:
        """Puts the same bytes until they are applied, or refused (None)."""
        backoff, was_unknown = self._backoff(), False
        while True:
            started_at = self.clock.elapsed()
            try:
                written = await self._store.put(key, data, mode)
            except PreconditionFailed:
                # A slow writer that has yet to win must know how slow it is, to ask for time.
                self._courtesy.measured(self.clock.elapsed() - started_at)
                return None
            except PutUnknown:
                was_unknown = True
            except StoreError:
                if not was_unknown:
                    raise
            else:
                self._courtesy.measured(self.clock.elapsed() - started_at)
                return written
            await self._services.clock.sleep(backoff.next_seconds())
