"""Room for jobs: a worker holds no more of them than it can start at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from penstock.runtime.tasks import Signal
from penstock.worker.running import Run


class Room:
    """There is room again when a handler has ended: not before, even if its attempt is over.

    Tasks with `cpu=True` need a process besides, of which there are fewer.
    """

    def __init__(self, concurrency: int, processes: int) -> None:
        self.limit = concurrency
        """How many jobs at once."""
        self.ended = 0
        """How many attempts are over."""
        self.runs: set[Run] = set()
        self.kept = 0
        """How much is kept for jobs that have been asked for."""
        self._processes_kept = 0
        self.lingering = 0
        """Threads whose attempt is over, and which have not noticed."""
        self._processes = processes
        self._idle = asyncio.Event()
        self._idle.set()
        self._busy = asyncio.Event()
        self._changes = Signal()

    @property
    def free(self) -> int:
        # Where the limit was lowered, those above it finish first.
        return max(0, self.limit - len(self.runs) - self.kept - self.lingering)

    @property
    def free_processes(self) -> int:
        busy = sum(run.needs_process for run in self.runs)
        return max(0, self._processes - busy - self._processes_kept)

    @property
    def is_idle(self) -> bool:
        return not self.runs and not self.kept

    @contextmanager
    def keep(self, count: int, processes: int) -> Iterator[None]:
        """Has room ready for so many jobs, some of which may need a process, until they come."""
        self.kept += count
        self._processes_kept += processes
        try:
            yield
        finally:
            self.kept -= count
            self._processes_kept -= processes
            self._changes.set()

    def take(self, run: Run) -> None:
        if not self.runs:
            self._idle.clear()
            self._busy.set()
        self.runs.add(run)

    def give_up(self, run: Run) -> None:
        self.runs.discard(run)
        self.ended += 1
        if not self.runs:
            self._idle.set()
            self._busy.clear()
        self._changes.set()

    def resize(self, limit: int) -> None:
        self.limit = limit
        self._changes.set()

    def linger(self, thread: Future[Any]) -> None:
        """Keeps the room of a thread that can't be interrupted until it ends by itself."""
        self.lingering += 1
        loop = asyncio.get_running_loop()

        def ended(_: Future[Any]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._lingered)

        thread.add_done_callback(ended)

    async def changed(self) -> None:
        """Until there is more room than before."""
        await self._changes.next()

    async def idle(self) -> None:
        """Until nothing runs."""
        await self._idle.wait()

    async def busy(self) -> None:
        """Until something runs."""
        await self._busy.wait()

    def _lingered(self) -> None:
        self.lingering -= 1
        self._changes.set()
