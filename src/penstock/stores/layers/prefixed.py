"""A part of a store as a store of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from penstock.ports.store import (
    Entry,
    ObjectStore,
    ObjectVersion,
    PutMode,
    StoredObject,
    Versioned,
    Watchable,
    Written,
)
from penstock.stores.keys import check_key
from penstock.stores.layers.layer import Layer


class Prefixed(Layer):
    """Everything under `{prefix}/`, with keys that do not know of it."""

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        super().__init__(store)
        prefix = prefix.strip("/")
        if prefix:
            check_key(prefix)
        self._prefix = f"{prefix}/" if prefix else ""
        if isinstance(store, Watchable):
            watchable = store
            self.watch = lambda prefix: watchable.watch(self._prefix + prefix)
        if isinstance(store, Versioned):
            versioned = store
            self.versions = lambda key: self._own_versions(versioned, key)
            self.get_version = lambda key, version_id: versioned.get_version(
                self._prefix + key, version_id
            )

    @property
    def name(self) -> str:
        return f"{self._store.name.rstrip('/')}/{self._prefix}".rstrip("/")

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        return await self._store.put(self._prefix + key, data, mode)

    async def get(self, key: str) -> StoredObject:
        return await self._store.get(self._prefix + key)

    async def delete(self, key: str) -> None:
        await self._store.delete(self._prefix + key)

    async def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        inner_start = self._prefix + start_after if start_after else ""
        async for entry in self._store.list(self._prefix + prefix, inner_start):
            yield replace(entry, key=entry.key.removeprefix(self._prefix))

    async def _own_versions(self, store: Versioned, key: str) -> AsyncIterator[ObjectVersion]:
        async for version in store.versions(self._prefix + key):
            yield replace(version, key=key)
