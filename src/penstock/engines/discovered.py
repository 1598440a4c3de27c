"""A queue whose layout is found out when it is started: then the engine for it is made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TypeVar

from penstock.errors import NotOpen
from penstock.kernel.commands import Claim, Command
from penstock.kernel.events import EndEvent, Event, JobEvent
from penstock.kernel.job import Job
from penstock.kernel.settings import Settings
from penstock.ports.backend import (
    Announcing,
    Backend,
    CancelledListener,
    Capabilities,
    Contents,
    Filter,
    Indexed,
    IndexReport,
    Stats,
    VacuumReport,
    WorkerRecord,
)

Answer = TypeVar("Answer")


class DiscoveredEngine:
    """Passes everything on. `Announcing` or `Indexed` if and only if what it found is."""

    watch_cancelled: Callable[[str, CancelledListener], AbstractContextManager[None]]
    following: Callable[[], AbstractContextManager[None]]
    repair: Callable[[], Awaitable[IndexReport]]

    def __init__(self, discover: Callable[[], Awaitable[Backend]]) -> None:
        self._discover = discover
        self._found: Backend | None = None
        self._starting = asyncio.Lock()

    @property
    def _engine(self) -> Backend:
        if self._found is None:
            raise NotOpen
        return self._found

    @property
    def capabilities(self) -> Capabilities:
        return self._engine.capabilities

    @property
    def settings(self) -> Settings:
        return self._engine.settings

    async def start(self) -> None:
        async with self._starting:
            if self._found is not None:
                # Started already, or closed, which it says.
                await self._found.start()
            else:
                found = await self._discover()
                await found.start()
                self._found = found
                if isinstance(found, Announcing):
                    self.watch_cancelled = found.watch_cancelled
                    self.following = found.following
                if isinstance(found, Indexed):
                    self.repair = found.repair

    async def stop(self) -> None:
        if self._found is not None:
            await self._found.stop()

    async def execute(self, command: Command[Answer]) -> Answer:
        return await self._engine.execute(command)

    def claimed(
        self, command: Claim, *, keep_unknown: bool = False
    ) -> AbstractAsyncContextManager[list[Job]]:
        return self._engine.claimed(command, keep_unknown=keep_unknown)

    async def get(self, tenant: str, ids: Sequence[str]) -> list[Job | None]:
        return await self._engine.get(tenant, ids)

    def jobs(
        self, tenant: str, filter: Filter, *, after: str | None = None, limit: int | None = None
    ) -> AsyncIterator[Job]:
        return self._engine.jobs(tenant, filter, after=after, limit=limit)

    async def stats(self, tenant: str) -> Stats:
        return await self._engine.stats(tenant)

    async def contents(self) -> Contents:
        return await self._engine.contents()

    async def history(self, tenant: str, id: str, life: int | None = None) -> list[JobEvent]:
        return await self._engine.history(tenant, id, life)

    def events(
        self, tenant: str | None, since: int, *, follow: bool = True
    ) -> AsyncIterator[Event]:
        return self._engine.events(tenant, since, follow=follow)

    async def last_position(self) -> int:
        return await self._engine.last_position()

    async def wait_ready(
        self,
        tenant: str,
        queues: Sequence[str] | None,
        types: Sequence[str] | None,
        timeout_seconds: float,
    ) -> None:
        await self._engine.wait_ready(tenant, queues, types, timeout_seconds)

    def watch_end(self, tenant: str, id: str) -> AbstractContextManager[Awaitable[EndEvent | None]]:
        return self._engine.watch_end(tenant, id)

    async def keep(self, id: str, data: bytes) -> str:
        return await self._engine.keep(id, data)

    async def fetch(self, key: str) -> bytes:
        return await self._engine.fetch(key)

    async def keep_import(self, run: str, data: bytes) -> str:
        return await self._engine.keep_import(run, data)

    async def abort_import(self, run: str) -> int:
        return await self._engine.abort_import(run)

    async def vacuum(self) -> VacuumReport:
        return await self._engine.vacuum()

    async def register(self, record: WorkerRecord) -> None:
        await self._engine.register(record)

    async def unregister(self, id: str) -> None:
        await self._engine.unregister(id)

    async def workers(self) -> list[WorkerRecord]:
        return await self._engine.workers()

    async def elect(self, role: str, candidate: str, seconds: float) -> bool:
        return await self._engine.elect(role, candidate, seconds)
