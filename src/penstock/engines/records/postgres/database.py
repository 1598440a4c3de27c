"""Connections to the server: how they are made and kept, the tables, and what the server promises.

Sessions of ours plan for themselves: every statement goes by an index whatever the statistics say
of tables that were empty a moment ago, and plans are made once. None is left holding locks for
long: who waits for a lock, or has died in the middle of a transaction, is given
`RESERVATION_SECONDS_MAX` by the server.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import psycopg
from psycopg import AsyncConnection, conninfo, errors
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from penstock.engines.records.postgres.errors import translated
from penstock.engines.records.postgres.steps import Script, play
from penstock.engines.records.statements import migrations
from penstock.errors import InvalidURL, NewerFormat, StoreDenied, StoreUnavailable, Unsupported
from penstock.ports.records import RESERVATION_SECONDS_MAX
from penstock.runtime.clock import SystemClock
from penstock.runtime.services import Services

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

DEFAULT_SCHEMA: Final = "penstock"
CONNECTIONS_MAX: Final = 6
"""Of one handle: one for its turns, one that listens, the others for reads."""
CONNECT_SECONDS_MAX: Final = 10
PATIENCE_SECONDS: Final = 15.0
"""How long a server that is away is waited for, such as while it restarts."""
RETRY_SECONDS: Final = 0.05
RETRY_SECONDS_MAX: Final = 1.0
_OLDEST: Final = 130_000
_RESERVATION: Final = f"{RESERVATION_SECONDS_MAX:g}s"
_SESSION: Final = {
    "lock_timeout": _RESERVATION,
    "idle_in_transaction_session_timeout": _RESERVATION,
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}


class Database:
    def __init__(self, url: str, schema: str, services: Services, *, fsync: bool) -> None:
        self.schema = schema
        self.is_strict = fsync
        """Whether a commit is on the disk when the server says so; known once it is open."""
        self._fsync = fsync
        self._services = services
        self._clock = SystemClock()
        self._parameters = _parameters(url)
        self._pool: AsyncConnectionPool[AsyncConnection[Any]] | None = None
        self.name = _name(self._parameters, schema)

    async def has_tables(self) -> bool:
        async with self._alone() as connection:
            return await self._level(connection) > 0

    async def open(self) -> None:
        async with self._alone() as connection:
            version = connection.info.server_version
            if version < _OLDEST:
                raise Unsupported("queues", f"PostgreSQL {version // 10_000}, older than 13,")
            await self._migrate(connection)
            self.is_strict = await self._note_durability(connection)
        self._pool = AsyncConnectionPool(
            kwargs={**self._parameters, "autocommit": True},
            min_size=1,
            max_size=CONNECTIONS_MAX,
            timeout=CONNECT_SECONDS_MAX,
            configure=self._configure,
            open=False,
        )
        await self._pool.open()

    async def close(self) -> None:
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await pool.close()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        """One of the pool; what is left unfinished on it is rolled back."""
        if self._pool is None:
            raise StoreUnavailable(self.name, "", "it was closed")
        try:
            async with self._pool.connection() as connection:
                yield connection
        except (psycopg.Error, PoolTimeout) as error:
            raise translated(self.name, error) from error

    async def play(self, make: Callable[[], Script[Answer]]) -> Answer:
        """For what can be done twice: while the server is away it is tried again."""

        async def act() -> Answer:
            async with self.connection() as connection:
                return await play(connection, make())

        return await self.patiently(act)

    async def patiently(
        self, act: Callable[[], Awaitable[Answer]], seconds: float = PATIENCE_SECONDS
    ) -> Answer:
        until = self._clock.elapsed() + seconds
        backoff = self._services.backoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
        while True:
            try:
                return await act()
            except StoreUnavailable:
                if self._pool is None or self._clock.elapsed() > until:
                    raise
            await self._clock.sleep(backoff.next_seconds())

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[AsyncConnection[Any]]:
        """A connection outside of the pool, whose refusal says why."""
        try:
            async with await self.connect() as connection:
                yield connection
        except psycopg.Error as error:
            raise translated(self.name, error) from error

    async def connect(self) -> AsyncConnection[Any]:
        return await AsyncConnection.connect(**self._parameters, autocommit=True)

    async def _configure(self, connection: AsyncConnection[Any]) -> None:
        settings = dict(_SESSION)
        if not self._fsync:
            settings["synchronous_commit"] = "off"
        for name, value in settings.items():
            await connection.execute("SELECT set_config(%s, %s, false)", (name, value))

    async def _migrate(self, connection: AsyncConnection[Any]) -> None:
        scripts = migrations(__package__)
        if await self._level(connection) == len(scripts):
            return
        async with connection.transaction():
            await connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended('penstock ' || %s, 0))",
                (self.schema,),
            )
            level = await self._level(connection)
            if level > len(scripts):
                raise NewerFormat(self.name, level, len(scripts))
            if level == 0:
                await self._make_schema(connection)
                await self._run(connection, "CREATE TABLE {schema}.format (level integer NOT NULL)")
                await self._run(connection, "INSERT INTO {schema}.format VALUES (0)")
            for script in scripts[level:]:
                await self._run(connection, script)
            await self._run(connection, f"UPDATE {{schema}}.format SET level = {len(scripts)}")

    async def _make_schema(self, connection: AsyncConnection[Any]) -> None:
        found = await connection.execute(
            "SELECT 1 FROM pg_namespace WHERE nspname = %s", (self.schema,)
        )
        if await found.fetchone():
            return
        try:
            await self._run(connection, "CREATE SCHEMA {schema}")
        except errors.InsufficientPrivilege as error:
            role = connection.info.user
            raise StoreDenied(
                self.name,
                "",
                f"{role} may not create the schema {self.schema}; let somebody who may run"
                f" CREATE SCHEMA {self.schema} AUTHORIZATION {role}",
            ) from error

    async def _run(self, connection: AsyncConnection[Any], script: str) -> None:
        await connection.execute(script.replace("{schema}", self.schema).encode())

    async def _level(self, connection: AsyncConnection[Any]) -> int:
        table = f"{self.schema}.format"
        found = await connection.execute("SELECT to_regclass(%s) IS NOT NULL", (table,))
        if await found.fetchone() != (True,):
            return 0
        row = await (await connection.execute(f"SELECT level FROM {table}".encode())).fetchone()
        return 0 if row is None else int(row[0])

    async def _note_durability(self, connection: AsyncConnection[Any]) -> bool:
        row = await (
            await connection.execute(
                "SELECT current_setting('fsync'), current_setting('synchronous_commit')"
            )
        ).fetchone()
        assert row is not None
        fsync, synchronous = row[0], row[1] if self._fsync else "off"
        is_strict = fsync == "on" and synchronous != "off"
        logger.info(
            "%s: durability is %s (fsync=%s, synchronous_commit=%s)",
            self.name, "strict" if is_strict else "relaxed", fsync, synchronous,
        )  # fmt: skip
        return is_strict


def _parameters(url: str) -> dict[str, Any]:
    try:
        said = conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise InvalidURL("postgresql://…", str(error).strip()) from None
    return {
        "connect_timeout": CONNECT_SECONDS_MAX,
        "fallback_application_name": "penstock",
        **said,
    }


def _name(parameters: dict[str, Any], schema: str) -> str:
    """For messages: where it is, and never who asks or with what password."""
    host = parameters.get("host", "")
    port = f":{parameters['port']}" if parameters.get("port") else ""
    place = f"postgresql://{host}{port}/{parameters.get('dbname', '')}"
    return place if schema == DEFAULT_SCHEMA else f"{place}/{schema}"
