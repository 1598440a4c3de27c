"""A store that goes by the test's clock.

A queue compares its clock with its store's and refuses to write when they differ, and vacuum goes
by the age of objects. So a test that moves the time has to move the store's as well:

    store = Stamped(MyStore(…), clock, stamps={})

Several handles on one store share the `stamps`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from penstock.ports.clock import Clock
from penstock.ports.store import Entry, ObjectStore, PutMode, StoredObject, Written
from penstock.stores.layers.layer import Layer


class Stamped(Layer):
    def __init__(self, store: ObjectStore, clock: Clock, stamps: dict[str, float]) -> None:
        super().__init__(store)
        self._clock = clock
        self._stamps = stamps

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        written = await self._store.put(key, data, mode)
        self._stamps[key] = self._clock.now()
        return Written(written.version, self._stamps[key])

    async def get(self, key: str) -> StoredObject:
        stored = await self._store.get(key)
        return replace(stored, modified_at=self._stamp(key))

    async def delete(self, key: str) -> None:
        await self._store.delete(key)
        self._stamps.pop(key, None)

    async def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        async for entry in self._store.list(prefix, start_after):
            yield replace(entry, modified_at=self._stamp(entry.key))

    def _stamp(self, key: str) -> float:
        """What was there before is as old as when it was first looked at."""
        return self._stamps.setdefault(key, self._clock.now())
