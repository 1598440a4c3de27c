"""Waiting for others' commits: by the store's word where it gives one, else for a while."""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

from penstock.errors import PenstockError
from penstock.ports.store import ObjectStore, Watchable
from penstock.runtime.services import Services
from penstock.runtime.tasks import Latch, TaskSet

logger = logging.getLogger(__name__)

POLL_SECONDS_MAX: Final = 0.5
"""How often it is looked where the store should give its word and can't."""


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
        self._is_in_vain = False

    async def changed(self, timeout_seconds: float) -> None:
        if self._is_in_vain:
            await self._services.clock.sleep(min(timeout_seconds, POLL_SECONDS_MAX))
        elif isinstance(self._store, Watchable):
            if not self._is_watching:
                self._is_watching = True
                self._tasks.keep(self._prefix, partial(self._watch, self._store))
            await self._news.wait(timeout_seconds)
        else:
            await self._services.clock.sleep(timeout_seconds)

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _watch(self, store: Watchable) -> None:
        try:
            async for _ in store.watch(self._prefix):
                self._news.set()
        except (PenstockError, OSError) as error:
            # Such as when the system has no watches left. What others do is found all the same.
            self._is_in_vain = True
            self._news.set()
            logger.warning(
                "%s: it can't say when it changes (%s); it is looked at every %g s instead. Where"
                " inotify is used up, raise fs.inotify.max_user_instances and max_user_watches",
                self._store.name,
                error,
                POLL_SECONDS_MAX,
            )
