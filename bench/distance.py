"""A store that is far away: every request takes a round trip before it is carried out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from penstock.ports.store import Entry, ObjectStore, PutMode, StoredObject, Written


class DistantStore:
    """Not a `Layer`: a bucket can't say when it changed, so `watch` must not shine through."""

    def __init__(self, store: ObjectStore, round_trip_seconds: float) -> None:
        self._store = store
        self._round_trip_seconds = round_trip_seconds

    @property
    def name(self) -> str:
        return f"{self._store.name}, {self._round_trip_seconds * 1000:.0f} ms away"

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        await self._travel()
        return await self._store.put(key, data, mode)

    async def get(self, key: str) -> StoredObject:
        await self._travel()
        return await self._store.get(key)

    async def delete(self, key: str) -> None:
        await self._travel()
        await self._store.delete(key)

    async def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        await self._travel()
        async for entry in self._store.list(prefix, start_after):
            yield entry

    async def close(self) -> None:
        await self._store.close()

    async def _travel(self) -> None:
        if self._round_trip_seconds:
            await asyncio.sleep(self._round_trip_seconds)
