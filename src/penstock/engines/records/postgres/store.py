"""A queue in PostgreSQL, for any number of machines.

A turn is one transaction of three exchanges: begin and head; what it needs; the write and its
COMMIT (`turning`). Should the connection be lost after a COMMIT was sent, the turn ends when it is
known what became of it: once no turn is under way any more, the commit is there or never will be.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from threading import Lock
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from psycopg.errors import LockNotAvailable
from psycopg.pq import TransactionStatus

from penstock.engines.records.capabilities import record_capabilities
from penstock.engines.records.postgres.arrays import know_arrays
from penstock.engines.records.postgres.database import (
    CONNECTIONS_MAX,
    DEFAULT_SCHEMA,
    AnyClient,
    Database,
)
from penstock.engines.records.postgres.errors import is_conflict, translated
from penstock.engines.records.postgres.listening import Ear
from penstock.engines.records.postgres.looking import Looker, Noted
from penstock.engines.records.postgres.objects import Objects
from penstock.engines.records.postgres.statements import Statements
from penstock.engines.records.postgres.steps import Script, play, play_async
from penstock.engines.records.postgres.turning import Elsewhere, MustBeAlone, StillOpen, Turning
from penstock.engines.records.postgres.writing import Writer
from penstock.errors import InvalidInput, StoreUnavailable
from penstock.ports.backend import Capabilities
from penstock.ports.counters import Survey
from penstock.ports.listing import Page, PageAsked
from penstock.ports.records import (
    Ask,
    Change,
    Collided,
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
from penstock.stores.threads import Threads

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

AnyLock = TypeVar("AnyLock", asyncio.Lock, Lock)

_LOCKS: Final[WeakKeyDictionary[Any, Any]] = WeakKeyDictionary()
_OPEN: Final = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
_COLLIDED: Final = "a transaction that is still open has the same id or key"
BATCHES_AT_ONCE: Final = 2
READS_MAX: Final = CONNECTIONS_MAX - BATCHES_AT_ONCE
"""At the same time; the other connections are for turns."""


class PostgresStore:
    def __init__(
        self,
        server: str | AnyClient,
        services: Services,
        *,
        schema: str = DEFAULT_SCHEMA,
        fsync: bool = True,
    ) -> None:
        sql = Statements(schema)
        self._services = services
        self._database = Database(server, schema, services, fsync=fsync)
        self._turning = Turning(sql)
        self._looker = Looker(sql)
        self._writer = Writer(sql.writing)
        self._teller = services.new_secret()
        self._turn_threads = Threads("penstock-postgres-turns", BATCHES_AT_ONCE)
        self._read_threads = Threads("penstock-postgres-reads", READS_MAX)
        self._ear = Ear(self._database, self._turning.channel, self._teller, services)
        self.side: ObjectStore = Objects(self._database, self._read_threads, sql.objects, services)

    @property
    def capabilities(self) -> Capabilities:
        return record_capabilities(
            self._database.name,
            push=self._database.can_listen,
            # Alone it is strict; of several at once each passes over what another is about to take.
            order="approximate",
            batches_at_once=BATCHES_AT_ONCE,
            durability="strict" if self._database.is_strict else "relaxed",
        )

    @property
    def has_own_clock(self) -> bool:
        return True

    async def exists(self) -> bool:
        return await self._read_threads.submit(self._database.has_tables)

    async def open(self) -> None:
        await self._read_threads.submit(self._database.open)

    async def close(self) -> None:
        await self._ear.close()
        await self._read_threads.submit(self._database.close)
        self._read_threads.close()
        self._turn_threads.close()

    async def drop(self) -> None:
        await asyncio.to_thread(self._database.drop)

    # Turns

    async def turn(self, ask: Ask, decide: Decide, *, is_read: bool) -> bool:
        return await self._turn_threads.submit(lambda: self._turn(ask, decide, is_read))

    async def turn_within(self, connection: Any, ask: Ask, decide: Decide) -> bool:
        with suppress(Elsewhere):
            return await self._turn_within(connection, ask, decide)
        # With the first turn, and after the server was started again.
        await self._look(self._turning.locate)
        try:
            return await self._turn_within(connection, ask, decide)
        except Elsewhere:
            raise InvalidInput(
                "connection=: it leads to another database, which has a queue of its own; give a "
                f"connection to that of {self._database.name}"
            ) from None

    async def _turn_within(self, connection: Any, ask: Ask, decide: Decide) -> bool:
        script = self._turning.within(ask, decide)
        try:
            if isinstance(connection, psycopg.AsyncConnection):
                async with _one_at_a_time(connection, asyncio.Lock):
                    _prepare(connection)
                    return await play_async(connection, script)
            if isinstance(connection, psycopg.Connection):
                return await asyncio.to_thread(_play_within, connection, script)
        except LockNotAvailable as error:
            raise StoreUnavailable(self._database.name, "", _COLLIDED) from error
        except psycopg.Error as error:
            raise translated(self._database.name, error) from error
        raise InvalidInput(
            f"connection={type(connection).__name__}: a connection of psycopg 3 is needed"
        )

    def _turn(self, ask: Ask, decide: Decide, is_read: bool) -> bool:
        database = self._database
        if is_read:
            return database.play(lambda: self._turning.look(ask, decide))
        alone: MustBeAlone | None = None
        while True:
            try:
                return database.patiently(partial(self._write, ask, decide, alone=alone))
            except MustBeAlone as must:
                alone = must

    def _write(self, ask: Ask, decide: Decide, *, alone: MustBeAlone | None) -> bool:
        with self._database.connection() as connection:
            try:
                ready = self._database.act(
                    connection, self._turning.decide(ask, decide, alone=alone)
                )
            except psycopg.Error as error:
                if not is_conflict(error):
                    raise
                connection.rollback()
                return False
            except StillOpen:
                raise StoreUnavailable(
                    self._database.name, "", "a transaction that has enqueued here is still open"
                ) from None
            if isinstance(ready, bool):
                return ready
            try:
                self._database.act(connection, self._turning.commit(ready, self._teller))
                return True
            except psycopg.Error as error:
                if connection.info.transaction_status in _OPEN:
                    # It failed before its COMMIT, which was then skipped.
                    connection.rollback()
                    if is_conflict(error):
                        return False
                    if isinstance(error, LockNotAvailable):
                        raise Collided(self._database.name, "", _COLLIDED) from error
                    raise
                logger.warning("%s: a commit was not answered: %s", self._database.name, error)
        return self._is_written(ready.change)

    def _is_written(self, change: Change) -> bool:
        """What became of a COMMIT that was not answered; for as long as it takes to know.

        A server that crashed may give a number again that it gave to a turn which was lost with it,
        so the events have to be those of this one.
        """
        script = partial(self._looker.settled_commit, change.commit)
        return self._database.patiently(lambda: self._database.play(script), inf) == change.events

    # Reads

    async def head(self) -> Head:
        return await self._look(self._looker.head)

    async def listing(self, asked: PageAsked) -> Page:
        return await self._look(lambda: self._looker.listing(asked))

    async def survey(self, tenant: str, at: float) -> Survey:
        return await self._look(lambda: self._looker.survey(tenant, at))

    async def tenants(self) -> list[str]:
        return await self._look(self._looker.tenants)

    async def lapsing(self, tenant: str, after: float) -> list[KeyHold]:
        return await self._look(lambda: self._looker.lapsing(tenant, after))

    async def next_due(self, wanted: Wanted, waiter: Waiter | None = None) -> Due:
        session = self._ear.session
        noted = None
        if waiter is not None and session is not None:
            noted = Noted(f"{self._teller}/{waiter.name}", session, waiter.stays)
        return await self._look(lambda: self._looker.next_due(wanted, noted))

    async def wake(self, wakes: Sequence[Wake]) -> None:
        await self._look(lambda: self._writer.wake(wakes))

    async def departure(self, tenant: str, id: str, life: int | None) -> Departure | None:
        return await self._look(lambda: self._looker.departure(tenant, id, life))

    async def remembered(self, tenant: str, after: float) -> list[Remembered]:
        return await self._look(lambda: self._looker.remembered(tenant, after))

    async def commits(self, after: int, count: int) -> list[tuple[int, bytes]]:
        return await self._look(lambda: self._looker.commits(after, count))

    async def commit(self, number: int) -> bytes | None:
        return await self._look(lambda: self._looker.commit(number))

    async def first_commit(self) -> int:
        return await self._look(self._looker.first_commit)

    async def sides(self) -> dict[str, float | None]:
        return await self._look(self._looker.sides)

    async def vacuum(self, written_before: float, below: int, released_before: float) -> int:
        return await self._look(lambda: self._writer.vacuum(written_before, below, released_before))

    async def _look(self, make: Callable[[], Script[Answer]]) -> Answer:
        return await self._read_threads.submit(lambda: self._database.play(make))

    async def changed(self, timeout_seconds: float) -> Heard:
        return await self._ear.wait(timeout_seconds)


def _play_within(connection: psycopg.Connection[Any], script: Script[bool]) -> bool:
    with _one_at_a_time(connection, Lock):
        _prepare(connection)
        return play(connection, script, is_ours=False)


def _one_at_a_time(connection: Any, new_lock: Callable[[], AnyLock]) -> AnyLock:
    """The lock of a caller's connection, whose savepoint has one turn at a time.

    Whichever handle takes it: a connection may be given to several.
    """
    lock: AnyLock = _LOCKS.setdefault(connection, new_lock())
    return lock


def _prepare(connection: psycopg.AsyncConnection[Any] | psycopg.Connection[Any]) -> None:
    """Makes a connection of the caller's ready for a turn."""
    status = connection.info.transaction_status
    if status is TransactionStatus.INERROR:
        raise InvalidInput(
            "the transaction of the connection has failed: roll it back, or to a savepoint before"
            " the statement that failed, and enqueue again"
        )
    if connection.info.encoding != "utf-8":
        # Names are sent as UTF-8: the server would make others of them, and nobody find the job.
        raise InvalidInput(
            f"the connection's client_encoding is {connection.info.encoding}: a job can be enqueued"
            " on one whose is UTF8"
        )
    if status is TransactionStatus.IDLE and connection.autocommit:
        raise InvalidInput(
            "the connection is in no transaction: enqueue inside `with connection.transaction():`"
        )
    know_arrays(connection)
