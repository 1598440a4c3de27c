"""A queue in PostgreSQL, for any number of machines.

A turn is one transaction of three exchanges: begin and head; what it needs; the write and its
COMMIT (`turning`). Should the connection be lost after a COMMIT was sent, the turn ends when it is
known what became of it: once no turn is under way any more, the commit is there or never will be.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from penstock.engines.records.postgres.database import (
    DEFAULT_SCHEMA,
    RETRY_SECONDS,
    RETRY_SECONDS_MAX,
    Database,
)
from penstock.engines.records.postgres.errors import is_conflict, translated
from penstock.engines.records.postgres.listening import Ear
from penstock.engines.records.postgres.looking import Looker
from penstock.engines.records.postgres.objects import Objects
from penstock.engines.records.postgres.statements import Statements
from penstock.engines.records.postgres.steps import play, play_blocking
from penstock.engines.records.postgres.turning import MustBeAlone, Turning
from penstock.engines.records.postgres.writing import Writer
from penstock.errors import InvalidInput, StoreUnavailable
from penstock.ports.backend import Capabilities
from penstock.ports.records import (
    Ask,
    Change,
    Decide,
    Departure,
    Due,
    Head,
    Shelf,
    Survey,
    Wanted,
)
from penstock.ports.store import ObjectStore
from penstock.runtime.clock import SystemClock
from penstock.runtime.services import Services

logger = logging.getLogger(__name__)


class PostgresStore:
    def __init__(
        self, url: str, services: Services, *, schema: str = DEFAULT_SCHEMA, fsync: bool = True
    ) -> None:
        sql = Statements(schema)
        self._services = services
        self._clock = SystemClock()
        self._database = Database(url, schema, services, fsync=fsync)
        self._turning = Turning(sql)
        self._looker = Looker(sql)
        self._writer = Writer(sql.writing)
        self._teller = services.new_secret()
        self._ear = Ear(self._database, self._turning.channel, self._teller, services)
        self.side: ObjectStore = Objects(self._database, sql.objects, services)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            backend=self._database.name,
            push=True,
            history=True,
            versions=False,
            order="strict",
            pause="strict",
            limits="strict",
            atomic_batch=True,
            events="ordered",
            durability="strict" if self._database.is_strict else "relaxed",
            multi_process=True,
            offload=True,
        )

    @property
    def has_own_clock(self) -> bool:
        return True

    async def exists(self) -> bool:
        return await self._database.has_tables()

    async def open(self) -> None:
        await self._database.open()

    async def close(self) -> None:
        await self._ear.close()
        await self._database.close()

    # Turns

    async def turn(self, ask: Ask, decide: Decide, *, is_read: bool) -> bool:
        if is_read and await self._database.play(lambda: self._turning.look(ask, decide)):
            return True
        try:
            return await self._database.patiently(lambda: self._turn(ask, decide, alone=False))
        except MustBeAlone:
            return await self._database.patiently(lambda: self._turn(ask, decide, alone=True))

    async def turn_within(self, connection: Any, ask: Ask, decide: Decide) -> bool:
        script = self._turning.within(ask, decide)
        try:
            if isinstance(connection, psycopg.AsyncConnection):
                _require_transaction(connection)
                return await play(connection, script)
            if isinstance(connection, psycopg.Connection):
                _require_transaction(connection)
                return await asyncio.to_thread(play_blocking, connection, script)
        except psycopg.Error as error:
            raise translated(self._database.name, error) from error
        raise InvalidInput(
            f"connection={type(connection).__name__}: a connection of psycopg 3 is needed"
        )

    async def _turn(self, ask: Ask, decide: Decide, *, alone: bool) -> bool:
        async with self._database.connection() as connection:
            ready = await play(connection, self._turning.decide(ask, decide, alone=alone))
            if isinstance(ready, bool):
                return ready
            try:
                await play(connection, self._turning.commit(ready, self._teller))
                return True
            except psycopg.Error as error:
                if connection.info.transaction_status is TransactionStatus.INERROR:
                    # It failed before its COMMIT, which was then skipped.
                    await connection.rollback()
                    if is_conflict(error):
                        return False
                    raise
                logger.warning("%s: a commit was not answered: %s", self._database.name, error)
        return await self._is_written(ready.change)

    async def _is_written(self, change: Change) -> bool:
        """What became of a COMMIT that was not answered; for as long as it takes to know.

        A server that crashed may give a number again that it gave to a turn which was lost with it,
        so the events have to be those of this one.
        """
        backoff = self._services.backoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
        while True:
            try:
                script = partial(self._looker.settled_commit, change.commit)
                return await self._database.play(script) == change.events
            except StoreUnavailable:
                await self._clock.sleep(backoff.next_seconds())

    # Reads

    async def head(self) -> Head:
        return await self._database.play(self._looker.head)

    async def listing(
        self, tenant: str, shelves: Sequence[Shelf], queue: str | None, type: str | None
    ) -> list[bytes]:
        return await self._database.play(lambda: self._looker.listing(tenant, shelves, queue, type))

    async def survey(self, tenant: str, at: float) -> Survey:
        return await self._database.play(lambda: self._looker.survey(tenant, at))

    async def next_due(self, wanted: Wanted) -> Due:
        return await self._database.play(lambda: self._looker.next_due(wanted))

    async def departure(self, tenant: str, id: str) -> Departure | None:
        return await self._database.play(lambda: self._looker.departure(tenant, id))

    async def commits(self, after: int, count: int) -> list[tuple[int, bytes]]:
        return await self._database.play(lambda: self._looker.commits(after, count))

    async def commit(self, number: int) -> bytes | None:
        return await self._database.play(lambda: self._looker.commit(number))

    async def first_commit(self) -> int:
        return await self._database.play(self._looker.first_commit)

    async def sides(self) -> dict[str, float | None]:
        return await self._database.play(self._looker.sides)

    async def vacuum(self, written_before: float, below: int, released_before: float) -> int:
        return await self._database.play(
            lambda: self._writer.vacuum(written_before, below, released_before)
        )

    async def changed(self, timeout_seconds: float) -> None:
        await self._ear.wait(timeout_seconds)


def _require_transaction(
    connection: psycopg.AsyncConnection[Any] | psycopg.Connection[Any],
) -> None:
    is_idle = connection.info.transaction_status is TransactionStatus.IDLE
    if is_idle and connection.autocommit:
        raise InvalidInput(
            "the connection is in no transaction: enqueue inside `with connection.transaction():`"
        )
