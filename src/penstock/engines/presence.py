"""Who is there: registrations of workers, for people to look at, and who leads what.

Neither is part of the queue's state. A registration is overwritten by its worker every few
seconds. A leadership is an object with a holder and a time, taken over by compare-and-set once that
time has passed; it saves work that several would do at once, and nothing correct depends on it.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from penstock.engines.names import WORKERS, leader_key, worker_key
from penstock.errors import ObjectNotFound, PreconditionFailed, PutUnknown
from penstock.ports.backend import WorkerRecord
from penstock.ports.store import Create, ObjectStore, Overwrite, PutMode, Replace
from penstock.runtime.services import Services


class Leadership(Struct, frozen=True):
    holder: str
    until: float
    nonce: str


class Presence:
    def __init__(self, store: ObjectStore, services: Services) -> None:
        self._store = store
        self._services = services

    async def register(self, record: WorkerRecord) -> None:
        await self._store.put(worker_key(record.id), msgspec.json.encode(record), Overwrite())

    async def unregister(self, id: str) -> None:
        await self._store.delete(worker_key(id))

    async def workers(self) -> list[WorkerRecord]:
        found: list[WorkerRecord] = []
        async for entry in self._store.list(WORKERS):
            try:
                stored = await self._store.get(entry.key)
                found.append(msgspec.json.decode(stored.data, type=WorkerRecord))
            except (ObjectNotFound, msgspec.MsgspecError):
                # Gone meanwhile, or of another version: there is nobody to show.
                continue
        return sorted(found, key=lambda record: record.id)

    async def elect(self, role: str, candidate: str, seconds: float) -> bool:
        """Whether the candidate leads now; asking again in time keeps it so."""
        key, now = leader_key(role), self._services.clock.now()
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
        taken = Leadership(candidate, now + seconds, self._services.new_secret())
        try:
            await self._store.put(key, msgspec.json.encode(taken), mode)
        except (PreconditionFailed, PutUnknown):
            return False
        return True
