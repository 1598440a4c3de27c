"""The journal of `memory://`: nothing is stored, everything else is the same.

Several engines, in several threads, may share one; the lock makes each batch one step. The newest
commits stay in a bounded ring, for those who follow events.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import chain
from typing import Final

from penstock.engines.consumers import Execute
from penstock.engines.histories import history_of, room_of
from penstock.engines.ledger.imports.objects import ImportObjects
from penstock.engines.ledger.imports.sweep import sweep_imports
from penstock.engines.ledger.journal import (
    Head,
    Listener,
    ledger_capabilities,
    nothing_to_close,
)
from penstock.engines.presence import Presence
from penstock.engines.side import SideObjects
from penstock.errors import Gap
from penstock.kernel.commands import AnyCommand, Expire
from penstock.kernel.events import SYSTEM_TENANT, Event, JobEvent, index_of, position_of
from penstock.kernel.job import Job
from penstock.kernel.stamps import THE_BEGINNING, Stamp, next_stamp
from penstock.kernel.state import QueueState
from penstock.ports.backend import Capabilities, VacuumReport
from penstock.ports.store import ObjectStore
from penstock.runtime.services import Services
from penstock.runtime.tasks import Latch

RING_EVENTS_MAX: Final = 100_000


class SharedMemory:
    """What all handles on one `memory://name` have in common."""

    def __init__(self, side: ObjectStore, name: str = "") -> None:
        self.name = name
        self.side = side
        """For what other layouts keep beside the queue: large values, registrations."""
        self.state = QueueState()
        self.head = Head(0, THE_BEGINNING, "")
        self.lock = threading.RLock()
        self.followers: dict[Callable[[], None], None] = {}
        self.ring: OrderedDict[int, Sequence[Event]] = OrderedDict()
        self._ring_events = 0

    def add(self, events: Sequence[Event], stamp: Stamp, writer: Callable[[], None]) -> None:
        """`writer` is the follower who knows already, since it has made the commit."""
        self.head = Head(self.head.commit + 1, stamp, "")
        self.ring[self.head.commit] = events
        self._ring_events += room_of(events)
        while self._ring_events > RING_EVENTS_MAX and len(self.ring) > 1:
            self._ring_events -= room_of(self.ring.popitem(last=False)[1])
        for tell in list(self.followers):
            if tell != writer:
                tell()

    @property
    def first_commit(self) -> int:
        return next(iter(self.ring), self.head.commit + 1)

    def events(self, commit: int) -> Sequence[Event]:
        try:
            return self.ring[commit]
        except KeyError:
            raise Gap(position_of(commit, 0), self.first_commit) from None


class MemoryJournal:
    def __init__(self, shared: SharedMemory, services: Services, listener: Listener) -> None:
        self.on_close: Callable[[], Awaitable[None]] = nothing_to_close
        self.presence = Presence(shared.side, services)
        self.imports = ImportObjects(shared.side, services)
        self._listener = listener
        self._shared = shared
        self._services = services
        self._side = SideObjects(
            shared.side, services, services.clock, lambda: shared.state.swept_before
        )
        self._seen = shared.head.commit
        self._news = Latch()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def state(self) -> QueueState:
        return self._shared.state

    @property
    def head(self) -> Head:
        return self._shared.head

    @property
    def state_bytes(self) -> None:
        return None

    @property
    def capabilities(self) -> Capabilities:
        return ledger_capabilities(
            f"memory://{self._shared.name}", push=True, multi_process=False, durability="none"
        )

    def turn(self) -> AbstractContextManager[object]:
        return self._shared.lock

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        with self._shared.lock:
            self._shared.followers[self._tell] = None

    async def close(self) -> None:
        with self._shared.lock:
            self._shared.followers.pop(self._tell, None)
        await self.imports.stop()

    def stamp(self) -> Stamp:
        return next_stamp(self.head.stamp, self._services.clock.now())

    async def ready_to_write(self) -> None:
        """Nobody else's clock is to be gone by."""

    async def catch_up(self) -> bool:
        with self._shared.lock:
            missed = range(self._seen + 1, self.head.commit + 1)
            self._seen = self.head.commit
            try:
                news = [self._shared.events(commit) for commit in missed]
            except Gap:
                self._listener(None)
                return True
        for events in news:
            self._listener(events)
        return bool(missed)

    async def append(self, events: Sequence[Event], stamp: Stamp) -> bool:
        self.state.settle()
        self.state.seal(stamp.at)
        await self.catch_up()
        self._shared.add(events, stamp, self._tell)
        self._seen = self.head.commit
        self._listener(events)
        return True

    def riders(self) -> list[AnyCommand]:
        return []

    async def vacuum(self, execute: Execute) -> VacuumReport:
        # Asked for its answer's sake: the settings are those of now, and the queue is open.
        await execute(Expire(SYSTEM_TENANT))
        horizon = self._services.clock.now() - self.state.settings.retention_seconds()
        deleted = await sweep_imports(self._shared.side, lambda: self.state, execute, horizon)
        return VacuumReport(self._shared.first_commit, import_objects=deleted)

    async def first_commit(self) -> int:
        return self._shared.first_commit

    async def read(self, commit: int, positions: Collection[int]) -> Sequence[Event]:
        _, events = await self.read_on(commit)
        return [events[index_of(position)] for position in positions]

    async def read_on(self, commit: int) -> tuple[int, Sequence[Event]]:
        with self._shared.lock:
            return commit, self._shared.events(commit)

    async def history(
        self, job: Job | None, tenant: str, id: str, life: int | None
    ) -> list[JobEvent]:
        with self._shared.lock:
            return history_of(chain.from_iterable(self._shared.ring.values()), tenant, id, life)

    async def changed(self, timeout_seconds: float) -> None:
        await self._news.wait(timeout_seconds)

    async def keep(self, id: str, data: bytes) -> str:
        return await self._side.keep(id, data)

    async def fetch(self, key: str) -> bytes:
        return await self._side.fetch(key)

    def _tell(self) -> None:
        """Called by whoever committed, from any thread."""
        assert self._loop is not None
        # That loop may end at any time, without having closed its handle.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._news.set)
