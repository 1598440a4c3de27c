"""Counts what is asked of a store: requests are what object storage costs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from penstock.ports.store import Entry, ObjectStore, PutMode, StoredObject, Written
from penstock.stores.layers.layer import Layer

# Object stores answer, and charge for, listings in pages of this many keys.
LIST_PAGE_KEYS = 1000


@dataclass(frozen=True, slots=True)
class Requests:
    """How many requests were sent, refused and failed ones included, and the bytes they moved."""

    puts: int = 0
    gets: int = 0
    lists: int = 0
    deletes: int = 0
    put_bytes: int = 0
    got_bytes: int = 0

    @property
    def total(self) -> int:
        return self.puts + self.gets + self.lists + self.deletes

    def since(self, earlier: Requests) -> Requests:
        """What was sent after an earlier count."""
        return Requests(
            self.puts - earlier.puts,
            self.gets - earlier.gets,
            self.lists - earlier.lists,
            self.deletes - earlier.deletes,
            self.put_bytes - earlier.put_bytes,
            self.got_bytes - earlier.got_bytes,
        )


class Counting(Layer):
    """For one event loop; the counts of several threads would get lost in each other."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._puts = 0
        self._gets = 0
        self._lists = 0
        self._deletes = 0
        self._put_bytes = 0
        self._got_bytes = 0

    @property
    def requests(self) -> Requests:
        """The count until now."""
        return Requests(
            self._puts, self._gets, self._lists, self._deletes, self._put_bytes, self._got_bytes
        )

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        self._puts += 1
        self._put_bytes += len(data)
        return await self._store.put(key, data, mode)

    async def get(self, key: str) -> StoredObject:
        self._gets += 1
        stored = await self._store.get(key)
        self._got_bytes += len(stored.data)
        return stored

    async def delete(self, key: str) -> None:
        self._deletes += 1
        await self._store.delete(key)

    async def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        self._lists += 1
        seen = 0
        async for entry in self._store.list(prefix, start_after):
            if seen and seen % LIST_PAGE_KEYS == 0:
                self._lists += 1
            seen += 1
            yield entry
