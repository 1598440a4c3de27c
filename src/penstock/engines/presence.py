"""Who is there: registrations of workers, for people to look at, and who leads what.

Neither is part of the queue's state. A registration is overwritten by its worker every few
seconds. A leadership is an object with a holder and a time, taken over by compare-and-set once that
time has passed; it saves work that several would do at once, and nothing correct depends on it.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from penstock.engines.names import WORKERS, leader_key, worker_key
from penstock.errors import ObjectNotFound, PreconditionFailed, PutUnknown
from penstock.ports.backend import WorkerRecord
from penstock.ports.store import Create, ObjectStore, Overwrite, PutMode, Replace
from penstock.runtime.services import Services

UNASKED_SHARE: Final = 2 / 3
"""How much of its time a leader lets pass before it asks again."""


class Leadership(Struct, frozen=True):
    holder: str
    until: float
    nonce: str


class _Lead(Struct, frozen=True):
    """A leadership as this process took it."""

    holder: str
    version: str
    renewed_at: float
    """By what has elapsed, since a clock may be set back."""


class Presence:
    def __init__(self, store: ObjectStore, services: Services) -> None:
        self._store = store
        self._services = services
        self._own: dict[str, WorkerRecord] = {}
        """What was registered here, by key: nobody else writes these, so they need not be read."""
        self._led: dict[str, _Lead] = {}
        """By key: what this process took."""

    async def register(self, record: WorkerRecord) -> None:
        key = worker_key(record.id)
        await self._store.put(key, msgspec.json.encode(record), Overwrite())
        self._own[key] = record

    async def unregister(self, id: str) -> None:
        self._own.pop(worker_key(id), None)
        await self._store.delete(worker_key(id))

    async def workers(self) -> list[WorkerRecord]:
        found: list[WorkerRecord] = []
        async for entry in self._store.list(WORKERS):
            if (own := self._own.get(entry.key)) is not None:
                found.append(own)
                continue
            try:
                stored = await self._store.get(entry.key)
                found.append(msgspec.json.decode(stored.data, type=WorkerRecord))
            except (ObjectNotFound, msgspec.MsgspecError):
                # Gone meanwhile, or of another version: there is nobody to show.
                continue
        return sorted(found, key=lambda record: record.id)

    async def elect(self, role: str, candidate: str, seconds: float) -> bool:
        """Whether the candidate leads now; asking again in time keeps it so.

        A leader that has a third of its time left, or more, need not ask the store; then it
        replaces what it has put, unread. Whoever took the lead from it, by a clock that is ahead,
        is noticed by then: two may lead for that long.
        """
        key, now = leader_key(role), self._services.clock.now()
        led = self._led.get(key)
        if led is not None and led.holder == candidate:
            if seconds > 0 and self._services.clock.elapsed() < led.renewed_at:
                return True
            if await self._lead(key, candidate, seconds, Replace(led.version)):
                return True
        mode: PutMode = Create()
        try:
            stored = await self._store.get(key)
            mode = Replace(stored.version)
            current = msgspec.json.decode(stored.data, type=Leadership)
            if current.holder != candidate and current.until > now:
                return False
        except (ObjectNotFound, msgspec.MsgspecError):
            # Nobody leads, or nobody that can be read.
            pass
        return await self._lead(key, candidate, seconds, mode)

    async def _lead(self, key: str, candidate: str, seconds: float, mode: PutMode) -> bool:
        clock = self._services.clock
        taken = Leadership(candidate, clock.now() + seconds, self._services.new_secret())
        renewed_at = clock.elapsed() + seconds * UNASKED_SHARE
        self._led.pop(key, None)
        try:
            written = await self._store.put(key, msgspec.json.encode(taken), mode)
        except (PreconditionFailed, PutUnknown):
            return False
        self._led[key] = _Lead(candidate, written.version, renewed_at)
        return True
