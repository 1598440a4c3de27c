"""A queue in one SQLite file, safe between the processes of one machine.

A turn is one transaction with the write lock, in a thread of its own: the kernel decides while
nothing that it looks at can change, so no turn is ever lost to another, candidates need not be
reserved, and the order is strict. The lock is never held across an await. Plain reads have
a connection and a thread of their own, and see the newest commit without waiting for writers.

Names in the file begin with `penstock_`, so that it may be the database of an application too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from penstock.engines.records.capabilities import record_capabilities
from penstock.engines.records.sqlite.cleaning import Cleaner
from penstock.engines.records.sqlite.database import Database
from penstock.engines.records.sqlite.finding import Finder
from penstock.engines.records.sqlite.objects import Objects
from penstock.engines.records.sqlite.writing import Conflict, Writer
from penstock.errors import StoreFull
from penstock.ports.backend import Capabilities
from penstock.ports.counters import Survey
from penstock.ports.listing import Page, PageAsked
from penstock.ports.records import (
    Ask,
    Decide,
    Departure,
    Due,
    Head,
    KeyHold,
    Remembered,
    Wanted,
)
from penstock.ports.store import ObjectStore
from penstock.ports.wakes import Heard, Waiter, Wake
from penstock.runtime.services import Services
from penstock.runtime.tasks import Signal
from penstock.stores.threads import Threads

Answer = TypeVar("Answer")

POLL_SECONDS: Final = 0.01
POLL_SECONDS_MAX: Final = 0.1
"""How often a file that others may write is looked at; a look takes microseconds."""


class SqliteStore:
    def __init__(self, path: str, services: Services, *, fsync: bool = True) -> None:
        self._fsync = fsync
        self._services = services
        self._writing = Database(path, fsync=fsync)
        self._reading = Database(path, fsync=fsync)
        self._ear = Database(path, fsync=fsync)
        self._write_thread = Threads("penstock-sqlite-turns", 1)
        self._read_thread = Threads("penstock-sqlite-reads", 1)
        self._finder = Finder(self._writing)
        self._reader = Finder(self._reading)
        self._writer = Writer(self._writing)
        self._cleaner = Cleaner(self._writing)
        self._closed = Signal()
        self._heard = (0, 0)
        self.side: ObjectStore = Objects(self._writing, self._write_thread, services)

    @property
    def capabilities(self) -> Capabilities:
        return record_capabilities(
            self._writing.name,
            push=False,
            order="strict",
            durability="strict" if self._fsync else "relaxed",
        )

    @property
    def has_own_clock(self) -> bool:
        return False

    async def exists(self) -> bool:
        return await self._read_thread.submit(self._writing.has_tables)

    async def open(self) -> None:
        await self._write_thread.submit(lambda: self._writing.open(make=True))
        await self._read_thread.submit(lambda: self._reading.open(make=False))
        await self._read_thread.submit(lambda: self._ear.open(make=False))

    async def close(self) -> None:
        self._closed.set()
        for database in (self._ear, self._reading):
            await self._read_thread.submit(database.close)
        await self._write_thread.submit(self._writing.close)
        self._read_thread.close()
        self._write_thread.close()

    async def turn(self, ask: Ask, decide: Decide, *, is_read: bool) -> bool:
        if is_read:
            return await self._read(lambda: self._look(ask, decide))
        return await self._write_thread.submit(lambda: self._turn(ask, decide))

    def _look(self, ask: Ask, decide: Decide) -> bool:
        head = self._reader.head()
        return decide(self._reader.find(ask(head), head.commit + 1)) is None

    def _turn(self, ask: Ask, decide: Decide) -> bool:
        try:
            with self._writing.writing():
                head = self._finder.head()
                change = decide(self._finder.find(ask(head), head.commit + 1))
                if change is not None:
                    self._writer.write(change, self._finder.places)
        except Conflict:
            return False
        return True

    async def head(self) -> Head:
        return await self._read(self._reader.head)

    async def listing(self, asked: PageAsked) -> Page:
        return await self._read(lambda: self._reader.listing(asked))

    async def survey(self, tenant: str, at: float) -> Survey:
        return await self._read(lambda: self._reader.survey(tenant, at))

    async def tenants(self) -> list[str]:
        return await self._read(self._reader.tenants)

    async def lapsing(self, tenant: str, after: float) -> list[KeyHold]:
        return await self._read(lambda: self._reader.lapsing(tenant, after))

    async def next_due(self, wanted: Wanted, waiter: Waiter | None = None) -> Due:
        return await self._read(lambda: self._reader.next_due(wanted))

    async def departure(self, tenant: str, id: str, life: int | None) -> Departure | None:
        return await self._read(lambda: self._reader.departure(tenant, id, life))

    async def remembered(self, tenant: str, after: float) -> list[Remembered]:
        return await self._read(lambda: self._reader.remembered(tenant, after))

    async def commits(self, after: int, count: int) -> list[tuple[int, bytes]]:
        return await self._read(lambda: self._reader.commits(after, count))

    async def commit(self, number: int) -> bytes | None:
        return await self._read(lambda: self._reader.commit(number))

    async def first_commit(self) -> int:
        return await self._read(self._reader.first_commit)

    async def sides(self) -> dict[str, float | None]:
        return await self._read(self._reader.sides)

    async def vacuum(self, written_before: float, below: int, released_before: float) -> int:
        cleaner, submit, dropped = self._cleaner, self._write_thread.submit, 0
        is_more = True
        after: str | None = ""
        while is_more:
            gone, is_more = await submit(lambda: cleaner.drop_commits(written_before, below))
            dropped += gone
            await submit(cleaner.pause)
        while after is not None:
            after = await submit(partial(cleaner.forget_sides, released_before, after))
            await submit(cleaner.pause)
        with suppress(StoreFull):
            # To make the file smaller takes room, too.
            while await submit(cleaner.give_back):
                await submit(cleaner.pause)
            await submit(cleaner.shorten_log)
        return dropped

    async def wake(self, wakes: Sequence[Wake]) -> None:
        """Nobody is noted: whoever waits looks at the file."""

    async def changed(self, timeout_seconds: float) -> Heard:
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_seconds
        backoff = self._services.backoff(POLL_SECONDS, POLL_SECONDS_MAX)
        while (version := self._data_version()) == self._heard and loop.time() < until:
            if await self._closed.wait(backoff.next_seconds()):
                break
        is_news, self._heard = version != self._heard, version
        return Heard(is_news)

    def _data_version(self) -> tuple[int, int]:
        """Another one once any other connection has committed; it takes microseconds."""
        with self._ear.translated():
            return self._ear.read(
                lambda: (self._ear.openings, self._ear.execute("PRAGMA data_version").fetchone()[0])
            )

    async def _read(self, look: Callable[[], Answer]) -> Answer:
        def act() -> Answer:
            with self._reading.reading():
                return look()

        return await self._read_thread.submit(lambda: self._reading.read(act))
