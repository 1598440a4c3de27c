"""Waiting for others' commits: by the store's word where it gives one, else for a while."""

from __future__ import annotations

from penstock.ports.store import ObjectStore, Watchable
from penstock.runtime.services import Services
from penstock.runtime.tasks import Latch, TaskSet


class Watcher:
    """Starts watching at the first wait, so that a client that never waits watches nothing.

    From then on a change that comes while nobody waits is remembered for whoever waits next.
    """

    def __init__(self, store: ObjectStore, prefix: str, services: Services) -> None:
        self._store = store
        self._prefix = prefix
        self._services = services
        self._news = Latch()
        self._tasks = TaskSet("watching")
        self._is_watching = False

    async def changed(self, timeout_seconds: float) -> None:
        if isinstance(self._store, Watchable):
            if not self._is_watching:
                self._is_watching = True
                self._tasks.start(self._prefix, self._watch(self._store))
            await self._news.wait(timeout_seconds)
        else:
            await self._services.clock.sleep(timeout_seconds)

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _watch(self, store: Watchable) -> None:
        async for _ in store.watch(self._prefix):
            self._news.set()
