"""Objects in a dictionary: for tests, the simulator and `memory://`."""

from __future__ import annotations

import asyncio
import bisect
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

from penstock.errors import ObjectNotFound, PreconditionFailed
from penstock.ports.store import Create, Entry, Overwrite, PutMode, Replace, StoredObject, Written
from penstock.runtime.clock import SystemClock
from penstock.stores.keys import check_key, check_prefix

LIST_PAGE_KEYS = 1000


@dataclass(frozen=True, slots=True)
class _Watcher:
    prefix: str
    loop: asyncio.AbstractEventLoop
    changed: asyncio.Event


class MemoryStore:
    """Keeps every promise of the port, also between threads and their event loops."""

    def __init__(self, name: str = "memory", *, now: Callable[[], float] | None = None) -> None:
        self._name = name
        self._now = now or SystemClock().now
        self._lock = threading.Lock()
        self._objects: dict[str, StoredObject] = {}
        self._sorted_keys: list[str] = []
        self._versions = itertools.count(1)
        self._watchers: set[_Watcher] = set()

    def __repr__(self) -> str:
        return f"<MemoryStore {self._name!r}, {len(self._objects)} objects>"

    @property
    def name(self) -> str:
        return self._name

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        check_key(key)
        with self._lock:
            stored = self._objects.get(key)
            if not _allows(mode, stored):
                raise PreconditionFailed(self._name, key)
            written = StoredObject(bytes(data), str(next(self._versions)), self._now())
            self._objects[key] = written
            if stored is None:
                bisect.insort(self._sorted_keys, key)
            self._announce(key)
        return Written(written.version, written.modified_at)

    async def get(self, key: str) -> StoredObject:
        check_key(key)
        try:
            return self._objects[key]
        except KeyError:
            raise ObjectNotFound(self._name, key) from None

    async def delete(self, key: str) -> None:
        check_key(key)
        with self._lock:
            if self._objects.pop(key, None) is not None:
                del self._sorted_keys[bisect.bisect_left(self._sorted_keys, key)]
                self._announce(key)

    async def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        check_prefix(prefix)
        cursor = start_after
        while page := self._page(prefix, cursor):
            for entry in page:
                yield entry
            cursor = page[-1].key

    async def watch(self, prefix: str) -> AsyncIterator[None]:
        watcher = _Watcher(prefix, asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._watchers.add(watcher)
        try:
            while True:
                await watcher.changed.wait()
                watcher.changed.clear()
                yield
        finally:
            with self._lock:
                self._watchers.discard(watcher)

    async def close(self) -> None:
        """Nothing to give back; the objects stay for other holders of this store."""

    def _page(self, prefix: str, start_after: str) -> Sequence[Entry]:
        with self._lock:
            first = max(
                bisect.bisect_left(self._sorted_keys, prefix),
                bisect.bisect_right(self._sorted_keys, start_after),
            )
            page: list[Entry] = []
            for key in self._sorted_keys[first : first + LIST_PAGE_KEYS]:
                if not key.startswith(prefix):
                    break
                stored = self._objects[key]
                page.append(Entry(key, len(stored.data), stored.modified_at))
        return page

    def _announce(self, key: str) -> None:
        for watcher in list(self._watchers):
            if not key.startswith(watcher.prefix):
                continue
            try:
                watcher.loop.call_soon_threadsafe(watcher.changed.set)
            except RuntimeError:
                # Its loop was closed under it, so nobody is left to close the watch.
                self._watchers.discard(watcher)


def _allows(mode: PutMode, stored: StoredObject | None) -> bool:
    match mode:
        case Create():
            return stored is None
        case Replace(version):
            return stored is not None and stored.version == version
        case Overwrite():
            return True
        case _:
            assert_never(mode)
