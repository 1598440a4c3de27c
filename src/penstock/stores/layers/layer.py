"""What all layers share: passing on what they do not change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from penstock.ports.store import (
    Entry,
    ObjectStore,
    ObjectVersion,
    PutMode,
    Reserving,
    StoredObject,
    Versioned,
    Watchable,
    Written,
)


class Layer:
    """A store around another; `Watchable`, `Reserving` and `Versioned` as the inner one is.

    Hence the attributes that only some instances have: `isinstance` looks for them there.
    """

    watch: Callable[[str], AsyncIterator[None]]
    keep_reserve: Callable[[], Awaitable[None]]
    give_up_reserve: Callable[[], Awaitable[bool]]
    versions: Callable[[str], AsyncIterator[ObjectVersion]]
    get_version: Callable[[str, str], Awaitable[StoredObject]]

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        if isinstance(store, Watchable):
            self.watch = store.watch
        if isinstance(store, Reserving):
            self.keep_reserve = store.keep_reserve
            self.give_up_reserve = store.give_up_reserve
        if isinstance(store, Versioned):
            self.versions = store.versions
            self.get_version = store.get_version

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._store!r}>"

    @property
    def name(self) -> str:
        return self._store.name

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        return await self._store.put(key, data, mode)

    async def get(self, key: str) -> StoredObject:
        return await self._store.get(key)

    async def delete(self, key: str) -> None:
        await self._store.delete(key)

    def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        return self._store.list(prefix, start_after)

    async def close(self) -> None:
        await self._store.close()
