"""What callers ask for, waiting to be taken as the next batch."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from penstock.errors import PenstockError, QueueClosed
from penstock.kernel.batch import Batch
from penstock.kernel.commands import Ack, Adopt, AnyCommand, Claim, Enqueue
from penstock.kernel.state import QueueState

BATCH_ITEMS_MAX: Final = 20_000
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
"""A batch stops growing at either; one request that is larger by itself goes alone."""


class Query:
    """A read: looks at the state as of a time, between two commands."""

    __slots__ = ("look",)

    def __init__(self, look: Callable[[QueueState, float], Any]) -> None:
        self.look = look


Work: TypeAlias = AnyCommand | Query


class Request:
    __slots__ = ("future", "work")

    def __init__(self, work: Work, future: asyncio.Future[Any]) -> None:
        self.work = work
        self.future = future

    def describe(self) -> tuple[str, tuple[str, ...]]:
        """For an error: what was asked, and the ids to ask again with."""
        if isinstance(self.work, Query):
            return "a read", ()
        ids = tuple(job.id for job in self.work.jobs) if isinstance(self.work, Enqueue) else ()
        return type(self.work).__name__.lower(), ids

    def weight(self) -> tuple[int, int]:
        """How many items it has, and how many bytes they bring into the commit."""
        work = self.work
        if isinstance(work, Enqueue):
            return len(work.jobs), sum([len(job.payload) for job in work.jobs])
        if isinstance(work, Ack):
            return len(work.items), sum([len(item.result) for item in work.items])
        if isinstance(work, Adopt):
            return len(work.jobs), sum([len(job.payload) + len(job.result) for job in work.jobs])
        return (work.count if isinstance(work, Claim) else 1), 0


def decided(batch: Batch, state: QueueState, work: Work, at: float) -> Any:
    """The answer to one request, or why it was refused: that concerns its caller alone."""
    try:
        return work.look(state, at) if isinstance(work, Query) else batch.run(work)
    except PenstockError as error:
        return error


class Inbox:
    def __init__(self, *, one_at_a_time: bool) -> None:
        self._waiting: deque[Request] = deque()
        self._arrived = asyncio.Event()
        self._one_at_a_time = one_at_a_time
        self._is_closed = False

    def add(self, work: Any) -> asyncio.Future[Any]:
        if self._is_closed:
            raise QueueClosed
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(Request(work, future))
        self._arrived.set()
        return future

    def add_quietly(self, work: AnyCommand) -> None:
        """For what nobody waits for; after closing there is nothing left to do it."""
        if not self._is_closed:
            self.add(work).add_done_callback(_retrieve)

    async def take(self) -> list[Request] | None:
        """The next batch, in order of arrival; None once closed and empty."""
        while not self._waiting:
            if self._is_closed:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        if self._one_at_a_time:
            return [self._waiting.popleft()]
        return self._take_many()

    def _take_many(self) -> list[Request]:
        batch: list[Request] = []
        items = size_bytes = 0
        while self._waiting:
            request = self._waiting[0]
            if request.future.cancelled():
                # Its caller has left before anything was sent, so it never happened.
                self._waiting.popleft()
                continue
            more_items, more_bytes = request.weight()
            items += more_items
            size_bytes += more_bytes
            if batch and (items > BATCH_ITEMS_MAX or size_bytes > BATCH_BYTES_MAX):
                break
            batch.append(self._waiting.popleft())
        return batch

    def fail_all(self, error: Exception) -> None:
        while self._waiting:
            request = self._waiting.popleft()
            if not request.future.done():
                request.future.set_exception(error)

    def close(self) -> None:
        self._is_closed = True
        self._arrived.set()


def _retrieve(future: asyncio.Future[Any]) -> None:
    """An error that nobody waits for is not worth a complaint at garbage collection."""
    if not future.cancelled():
        future.exception()
