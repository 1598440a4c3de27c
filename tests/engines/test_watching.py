"""A change that comes while nobody waits is not lost for whoever waits next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from penstock.engines.watching import Watcher
from penstock.runtime.services import Services
from penstock.runtime.tasks import Latch
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import turns

HANG_SECONDS = 30.0


class Watched(MemoryStore):
    """Says that it changed when the test does."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: asyncio.Queue[None] = asyncio.Queue()

    async def watch(self, prefix: str) -> AsyncIterator[None]:
        while True:
            await self.changes.get()
            yield


async def test_a_change_between_two_waits_ends_the_second_at_once() -> None:
    store = Watched()
    watcher = Watcher(store, "log/", Services())
    async with asyncio.timeout(HANG_SECONDS):
        for _ in range(2):
            store.changes.put_nowait(None)
            await turns()
            await watcher.changed(2 * HANG_SECONDS)
    await watcher.stop()


async def test_what_was_waited_for_is_forgotten() -> None:
    latch = Latch()
    latch.set()
    await latch.wait(HANG_SECONDS)
    again = asyncio.ensure_future(latch.wait(HANG_SECONDS))
    await turns()
    assert not again.done()
    latch.set()
    await again
