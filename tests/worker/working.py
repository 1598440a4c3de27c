"""A worker under test: started, watched, and stopped when the block ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from penstock.kernel.job import Job
from penstock.runtime.services import Services
from penstock.testing.clock import FakeClock, turn
from penstock.testing.kit import Kit
from penstock.worker.options import WorkerOptions
from penstock.worker.worker import Worker

HANG_SECONDS = 20.0
"""A wait that takes longer has failed."""


class WatchedWorker:
    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.task: asyncio.Task[None] = asyncio.ensure_future(worker.run())

    @property
    def counters(self) -> Any:
        return self.worker.counters

    async def until_running(self, count: int) -> None:
        await until(lambda: len(self.worker.running) == count)

    async def stop(self) -> None:
        self.worker.stop()
        await self.task


@asynccontextmanager
async def at_work(kit: Kit, **options: Any) -> AsyncIterator[WatchedWorker]:
    """A worker on the kit's queue, by the kit's clock."""
    given = {"monitor": False, "name": "w1", "grace_seconds": 0.0, **options}
    async with watched(Worker(kit.app, WorkerOptions(**given), Services(clock=kit.clock))) as it:
        yield it


@asynccontextmanager
async def watched(worker: Worker) -> AsyncIterator[WatchedWorker]:
    watching = WatchedWorker(worker)
    try:
        yield watching
    finally:
        if not watching.task.done():
            worker.stop()
            worker.stop()
        await watching.task


async def until(happened: Callable[[], bool]) -> None:
    """Lets everybody else run until it has happened."""
    async with asyncio.timeout(HANG_SECONDS):
        while not happened():
            await turn()


async def until_time_passes(clock: FakeClock, happened: Callable[[], bool]) -> None:
    """Lets the clock run, second by second, until it has happened."""
    async with asyncio.timeout(HANG_SECONDS):
        while not happened():
            await clock.advance(1)


async def found(kit: Kit, id: str) -> Job:
    job = await kit.queue.get(id)
    assert job is not None
    return job
