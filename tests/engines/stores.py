"""Stores in a certain condition, for the tests of the engines."""

from __future__ import annotations

import asyncio

from penstock.engines.ledger.log.checkpoints import write_checkpoint
from penstock.engines.ledger.names import LOG, commit_in, log_key
from penstock.kernel.state import QueueState
from penstock.ports.store import ObjectStore, PutMode, StoredObject, Written
from penstock.stores.layers.layer import Layer
from penstock.wire.commit import decode_commit
from penstock.wire.snapshot import checkpoint_of


async def checkpointed(store: ObjectStore, commit: int) -> int:
    """Has the store hold a good checkpoint of that commit, folded from the whole log."""
    state = QueueState()
    for number in range(1, commit + 1):
        found = decode_commit(log_key(number), (await store.get(log_key(number))).data)
        state.fold(found.header.at, found.events)
    data = checkpoint_of(state, commit=commit, chain=found.chain, at=found.header.at)
    await write_checkpoint(store, commit, data)
    return commit


async def commits(store: ObjectStore) -> list[int]:
    """The numbers of the commits that are stored."""
    found = [commit_in(entry.key) async for entry in store.list(LOG)]
    return [number for number in found if number is not None]


async def keys(store: ObjectStore, prefix: str = "") -> list[str]:
    return [entry.key async for entry in store.list(prefix)]


class Held(Layer):
    """A store whose puts under a prefix can be held up for as long as the test likes."""

    def __init__(self, store: ObjectStore, prefix: str = "log/") -> None:
        super().__init__(store)
        self._prefix = prefix
        self._open = asyncio.Event()
        self._open.set()
        self.arrived = asyncio.Event()

    def hold(self) -> None:
        self._open.clear()
        self.arrived.clear()

    def let_go(self) -> None:
        self._open.set()

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        if key.startswith(self._prefix) and not self._open.is_set():
            self.arrived.set()
            await self._open.wait()
        return await self._store.put(key, data, mode)


class Recorded(Layer):
    """A store that remembers what was asked of it, in order."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.requests: list[tuple[str, str]] = []
        self.puts: list[tuple[str, bytes]] = []

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        self.requests.append(("put", key))
        self.puts.append((key, data))
        return await self._store.put(key, data, mode)

    async def get(self, key: str) -> StoredObject:
        self.requests.append(("get", key))
        return await self._store.get(key)

    async def delete(self, key: str) -> None:
        self.requests.append(("delete", key))
        await self._store.delete(key)


class Unwatched(Layer):
    """A store that does not say when it changes, as those in the cloud don't."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        if hasattr(self, "watch"):
            del self.watch
