"""Group commit: callers' requests become batches, batches become commits, commits become answers.

One task serves. It takes everything that is waiting as one batch, has it decided and made durable,
and only then answers. While that is under way new requests gather for the next batch, so
throughput grows with latency instead of falling. How a batch is served is each engine's business.

Where commits are a server's work there are two such tasks, so that neither waits for the other.
"""

from __future__ import annotations

import asyncio
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from typing import Final, TypeVar

from penstock.engines.handover import Block, Handover
from penstock.engines.listeners import Listeners
from penstock.engines.presence import Presence
from penstock.engines.requests import Inbox, Request
from penstock.errors import (
    Forked,
    NotOpen,
    OutcomeUnknown,
    PenstockError,
    QueueClosed,
    StoreUnavailable,
)
from penstock.kernel.commands import Claim, Command
from penstock.kernel.events import EndEvent
from penstock.kernel.job import Job
from penstock.ports.backend import CancelledListener, Capabilities, WorkerRecord
from penstock.runtime.services import Services
from penstock.runtime.tasks import Repeat, TaskSet

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

OUTCOME_SECONDS_MAX: Final = 60.0
"""How long a caller waits for a store that does not answer before it is told so."""


class _Process:
    """Which of the processes that were forked from one another this is."""

    # Counted, since every call would have to ask the system for it, which takes 0.3 µs.
    number = 0

    @classmethod
    def note_fork(cls) -> None:
        cls.number += 1


os.register_at_fork(after_in_child=_Process.note_fork)


class GroupCommit(ABC):
    def __init__(
        self, name: str, services: Services, *, group_commit: bool, outcome_seconds_max: float
    ) -> None:
        self._services = services
        self._inbox = Inbox(one_at_a_time=not group_commit)
        self._listeners = Listeners()
        self._tasks = TaskSet(name)
        self._group_commit = group_commit
        self._handover = Handover(self._inbox, services, outcome_seconds_max)
        self._lifecycle = asyncio.Lock()
        self._loop_tasks: list[asyncio.Task[None]] = []
        self._process = _Process.number
        self._outcome_seconds_max = outcome_seconds_max

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities: ...

    @property
    @abstractmethod
    def _presence(self) -> Presence: ...

    @abstractmethod
    async def _open(self) -> None:
        """Makes ready what batches are served with."""

    @abstractmethod
    async def _close(self) -> None: ...

    @abstractmethod
    async def _serve(self, requests: list[Request]) -> None:
        """Decides the requests until the result stands, then answers them."""

    @abstractmethod
    async def _follow(self) -> None:
        """Tells the listeners what others have committed, without end."""

    async def start(self) -> None:
        # Of several who start it at once the others find it started.
        async with self._lifecycle:
            if self._inbox.is_closed:
                # Its connections, threads and waiters are gone, and none of them comes back.
                raise QueueClosed
            if not self._loop_tasks:
                self._process = _Process.number
                self._inbox.open()
                await self._open()
                at_once = self.capabilities.batches_at_once if self._group_commit else 1
                self._loop_tasks = [
                    self._tasks.keep("commits", self._commit_or_refuse) for _ in range(at_once)
                ]
                self._tasks.keep("following", self._follow)

    async def stop(self) -> None:
        if self._process != _Process.number:
            # What there is to stop runs in the parent.
            return
        async with self._lifecycle:
            if not self._loop_tasks:
                return
            self._inbox.close()
            last = self._tasks.start("last words", self._finish())
            await asyncio.wait([last], timeout=self._outcome_seconds_max)
            await self._handover.stop()
            self._listeners.close()
            await self._tasks.stop()
            self._inbox.fail_all(QueueClosed())
            await self._close()
            self._loop_tasks = []

    async def _finish(self) -> None:
        """Serves what was accepted, and takes back what no caller has taken."""
        await self._handover.finish()
        self._inbox.finish()
        await asyncio.wait(self._loop_tasks)

    async def _commit_or_refuse(self) -> None:
        """Where the loop is taken down around us, nobody waits for an answer that can't come."""
        try:
            await self._commit_loop()
        except asyncio.CancelledError:
            self._inbox.close()
            self._inbox.finish()
            self._inbox.fail_all(QueueClosed())
            raise

    async def execute(self, command: Command[Answer]) -> Answer:
        self._require_open()
        answer: Answer = await self._inbox.add(command)
        return answer

    def claimed(
        self, command: Claim, *, keep_unknown: bool = False
    ) -> AbstractAsyncContextManager[list[Job]]:
        self._require_open()
        return Block(self._handover, command, keep_unknown=keep_unknown)

    @contextmanager
    def watch_end(self, tenant: str, id: str) -> Iterator[Awaitable[EndEvent | None]]:
        with self._listeners.listening(), self._listeners.end_of(tenant, id) as end:
            yield end

    async def register(self, record: WorkerRecord) -> None:
        await self._presence.register(record)

    async def unregister(self, id: str) -> None:
        await self._presence.unregister(id)

    async def workers(self) -> list[WorkerRecord]:
        return await self._presence.workers()

    async def elect(self, role: str, candidate: str, seconds: float) -> bool:
        return await self._presence.elect(role, candidate, seconds)

    def _require_open(self) -> None:
        if not self._loop_tasks:
            raise self._why_not_open()
        if self._process != _Process.number:
            raise Forked

    def _why_not_open(self) -> QueueClosed:
        return QueueClosed() if self._inbox.is_closed else NotOpen()

    async def _commit_loop(self) -> None:
        while (requests := await self._inbox.take()) is not None:
            await self._attend(requests)

    async def _attend(self, requests: list[Request]) -> None:
        """Serves one batch; what goes wrong is told to those who wait for it."""
        watchdog = Repeat(self._outcome_seconds_max, self._give_up, requests)
        try:
            await self._serve(requests)
        except asyncio.CancelledError:
            self._fail(requests, OutcomeUnknown("the command"))
            raise
        except PenstockError as error:
            self._fail(requests, error)
        except Exception as error:
            logger.exception("a batch failed in a way that it should not")
            self._fail(requests, error)
        finally:
            watchdog.cancel()

    def _fail(self, requests: list[Request], error: Exception) -> None:
        for request in requests:
            request.answer(error)

    def _give_up(self, requests: list[Request]) -> None:
        """The store has not answered for too long: tell those who wait, whatever they wait for.

        The attempt itself goes on, frozen: only the store can say what became of it.
        """
        for request in requests:
            if not request.future.done():
                request.future.set_exception(OutcomeUnknown(request.describe()))
        self._inbox.fail_all(StoreUnavailable(self.capabilities.backend, "", "it does not answer"))


class FollowedCommits(GroupCommit):
    """An engine that hears of others' commits and tells of them."""

    def watch_cancelled(self, tenant: str, tell: CancelledListener) -> AbstractContextManager[None]:
        return self._listeners.cancellations_of(tenant, tell)

    def following(self) -> AbstractContextManager[None]:
        return self._listeners.listening()
