"""The server, by blocking connections: how it is reached, the tables, what it promises.

Sessions of ours plan for themselves: every statement goes by an index whatever the statistics say
of tables that were empty a moment ago, and plans are made once. None is left holding locks for
long: who waits for a lock, or says nothing in the middle of a transaction, is given
`RESERVATION_SECONDS_MAX` by the server. A process that is stopped in the midst of an exchange is
neither idle nor waiting, so a transaction as a whole has a limit too, from PostgreSQL 17 on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection, conninfo, errors, pq
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from penstock.engines.records.postgres.connections import Connections
from penstock.engines.records.postgres.errors import is_starting, translated
from penstock.engines.records.postgres.exchanges import OwnConnection
from penstock.engines.records.postgres.steps import Script, Step, play
from penstock.engines.records.statements import migrations
from penstock.errors import (
    InvalidInput,
    InvalidURL,
    NewerFormat,
    StoreDenied,
    StoreUnavailable,
    Unsupported,
)
from penstock.ports.records import RESERVATION_SECONDS_MAX, SERVER_LOGGER, Collided
from penstock.runtime.clock import SystemClock, block
from penstock.runtime.services import Services

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

DEFAULT_SCHEMA: Final = "penstock"
CONNECTIONS_MAX: Final = 6
"""Of one handle: one for its turns, one that listens, the others for reads."""
CONNECT_SECONDS_MAX: Final = 10
SILENT_SECONDS_MAX: Final = 10
"""How long the network may be silent before it is asked whether it is still there."""
PATIENCE_SECONDS: Final = 15.0
"""How long a server that is away is waited for, such as while it restarts."""
STARTING_SECONDS_MAX: Final = 60.0
"""How long `open` waits for a server that says that it is starting up."""
TRANSACTION_SECONDS_MAX: Final = 30.0
"""Far above what a turn takes; who is not done by then has been stopped."""
RETRY_SECONDS: Final = 0.05
RETRY_SECONDS_MAX: Final = 1.0
_OLDEST: Final = 130_000
_LIMITS_TRANSACTIONS: Final = 170_000
_RESERVATION: Final = f"{RESERVATION_SECONDS_MAX:g}s"
SESSION: Final = {
    "lock_timeout": _RESERVATION,
    "idle_in_transaction_session_timeout": _RESERVATION,
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}


_PATIENT: Final = {
    "connect_timeout": CONNECT_SECONDS_MAX,
    "keepalives_idle": SILENT_SECONDS_MAX,
    "keepalives_interval": SILENT_SECONDS_MAX,
    "keepalives_count": 2,
    "tcp_user_timeout": 3 * SILENT_SECONDS_MAX * 1_000,
    "fallback_application_name": "penstock",
}
_TEXT: Final = {"client_encoding": "utf8"}
"""Whatever the URL, the environment or the database says: arrays are packed in it (`arrays`)."""
_NAMED: Final = frozenset(option.keyword.decode() for option in pq.Conninfo.get_defaults())
"""What can be said about a connection; a pool's other settings are Python's."""

AnyClient: TypeAlias = (
    Connection[Any] | AsyncConnection[Any] | ConnectionPool[Any] | AsyncConnectionPool[Any]
)


class Database:
    def __init__(
        self, server: str | AnyClient, schema: str, services: Services, *, fsync: bool
    ) -> None:
        self.schema = schema
        self.is_strict = fsync
        """Whether a commit is on the disk when the server says so; known once it is open."""
        self.is_pooled = False
        """Whether a pooler stands between: it may give each transaction another session."""
        self.can_listen = True
        """Whether the server tells of news; both are known once it is open."""
        self.is_closed = False
        self.parameters = {**_PATIENT, **_reach(server), **_TEXT}
        self.name = _name(self.parameters, schema)
        self._fsync = fsync
        self._services = services
        self._clock = SystemClock()
        self._connections: Connections | None = None
        self._wishes: dict[str, str] = {}
        self._settings: Step | None = None

    def has_tables(self) -> bool:
        with self._alone() as connection:
            return self._level(connection) > 0

    def open(self) -> None:
        self._until_started(self._prepare)
        self._connections = Connections(self._connect, self._clock)

    def _prepare(self) -> None:
        with self._alone() as connection:
            version = connection.info.server_version
            if version < _OLDEST:
                raise Unsupported("queues", f"PostgreSQL {version // 10_000}, older than 13,")
            self._note_reach(connection)
            self._migrate(connection)
            self.is_strict = self._note_durability(connection)

    def close(self) -> None:
        self.is_closed = True
        if self._connections is not None:
            connections, self._connections = self._connections, None
            connections.close()

    def drop(self) -> None:
        with self._alone() as connection:
            self._run(connection, "DROP SCHEMA IF EXISTS {schema} CASCADE")

    @contextmanager
    def connection(self) -> Iterator[Connection[Any]]:
        """One that was idle, or a new one; what is left unfinished on it is rolled back."""
        if self._connections is None:
            raise StoreUnavailable(self.name, "", "it was closed")
        try:
            with self._connections.lend() as connection:
                yield connection
        except psycopg.Error as error:
            raise translated(self.name, error) from error

    def play(self, make: Callable[[], Script[Answer]]) -> Answer:
        """For what can be done twice: while the server is away it is tried again."""

        def act() -> Answer:
            with self.connection() as connection:
                return self.act(connection, make())

        return self.patiently(act)

    def act(self, connection: Connection[Any], script: Script[Answer]) -> Answer:
        return play(connection, script, settings=self._settings if self.is_pooled else None)

    def patiently(self, act: Callable[[], Answer], seconds: float | None = None) -> Answer:
        until = self._clock.elapsed() + (PATIENCE_SECONDS if seconds is None else seconds)
        backoff = self._services.backoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
        while True:
            try:
                return act()
            except Collided:
                raise
            except StoreUnavailable:
                if self.is_closed or self._clock.elapsed() > until:
                    raise
            block(backoff.next_seconds())

    def _until_started(self, act: Callable[[], None]) -> None:
        """Waits for a server that is there and not ready, and for no other: a wrong address would
        be told late."""
        until = self._clock.elapsed() + STARTING_SECONDS_MAX
        backoff = self._services.backoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
        while True:
            try:
                return act()
            except StoreUnavailable as error:
                if self._clock.elapsed() > until or not is_starting(str(error)):
                    raise
            block(backoff.next_seconds())

    @contextmanager
    def _alone(self) -> Iterator[Connection[Any]]:
        """A connection of its own, for what is done once."""
        try:
            with Connection.connect(
                **self.parameters, autocommit=True, prepare_threshold=None
            ) as connection:
                yield connection
        except psycopg.Error as error:
            raise translated(self.name, error) from error

    def _connect(self) -> OwnConnection:
        connection = OwnConnection.connect(**self.parameters, autocommit=True)
        try:
            self._configure(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _configure(self, connection: OwnConnection) -> None:
        if self.is_pooled:
            connection.prepares = False
        else:
            connection.execute(_setting(self._wishes, for_transaction=False).encode())

    def _note_reach(self, connection: Connection[Any]) -> None:
        """A server tells each session its number; a pooler tells one that it made up."""
        [[session]] = connection.execute("SELECT pg_backend_pid()")
        self.is_pooled = session != connection.info.backend_pid
        self._wishes = dict(SESSION)
        if connection.info.server_version >= _LIMITS_TRANSACTIONS:
            self._wishes["transaction_timeout"] = f"{TRANSACTION_SECONDS_MAX:g}s"
        if not self._fsync:
            self._wishes["synchronous_commit"] = "off"
        self._settings = Step(_setting(self._wishes, for_transaction=True))
        self.can_listen = not self.is_pooled and _can_listen(connection)
        if not self.can_listen:
            why = "it is reached through a pooler" if self.is_pooled else "the server has no LISTEN"
            said = logging.getLogger(SERVER_LOGGER)
            said.warning("%s: looks for news again and again, since %s", self.name, why)

    def _migrate(self, connection: Connection[Any]) -> None:
        scripts = migrations(__package__)
        if self._level(connection) == len(scripts):
            return
        with connection.transaction():
            connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended('penstock ' || %s, 0))",
                (self.schema,),
            )
            level = self._level(connection)
            if level > len(scripts):
                raise NewerFormat(self.name, level, len(scripts))
            if level == 0:
                self._make_schema(connection)
                self._run(connection, "CREATE TABLE {schema}.format (level integer NOT NULL)")
                self._run(connection, "INSERT INTO {schema}.format VALUES (0)")
            for script in scripts[level:]:
                self._run(connection, script)
            self._run(connection, f"UPDATE {{schema}}.format SET level = {len(scripts)}")

    def _make_schema(self, connection: Connection[Any]) -> None:
        found = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (self.schema,))
        if found.fetchone():
            return
        try:
            self._run(connection, "CREATE SCHEMA {schema}")
        except errors.InsufficientPrivilege as error:
            role = connection.info.user
            raise StoreDenied(
                self.name,
                "",
                f"{role} may not create the schema {self.schema}; let somebody who may run"
                f" CREATE SCHEMA {self.schema} AUTHORIZATION {role}",
            ) from error

    def _run(self, connection: Connection[Any], script: str) -> None:
        connection.execute(script.replace("{schema}", self.schema).encode())

    def _level(self, connection: Connection[Any]) -> int:
        # Not by `to_regclass`, which may answer from what this session has looked up before.
        found = connection.execute(
            "SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace"
            " WHERE nspname = %s AND relname = 'format'",
            (self.schema,),
        )
        if found.fetchone() is None:
            return 0
        statement = f"SELECT level FROM {self.schema}.format"
        row = connection.execute(statement.encode()).fetchone()
        return 0 if row is None else int(row[0])

    def _note_durability(self, connection: Connection[Any]) -> bool:
        row = connection.execute(
            "SELECT current_setting('fsync'), current_setting('synchronous_commit')"
        ).fetchone()
        assert row is not None
        fsync, synchronous = row[0], row[1] if self._fsync else "off"
        is_strict = fsync == "on" and synchronous != "off"
        logger.info(
            "%s: durability is %s (fsync=%s, synchronous_commit=%s)",
            self.name, "strict" if is_strict else "relaxed", fsync, synchronous,
        )  # fmt: skip
        return is_strict


def _setting(wishes: dict[str, str], *, for_transaction: bool) -> str:
    """A statement; each name and value is one of ours, so that none needs quotes."""
    local = "true" if for_transaction else "false"
    each = (f"set_config('{name}', '{value}', {local})" for name, value in wishes.items())
    return f"SELECT {', '.join(each)}"


def _can_listen(connection: Connection[Any]) -> bool:
    try:
        connection.execute("LISTEN penstock")
        connection.execute("UNLISTEN penstock")
    except (errors.FeatureNotSupported, errors.SyntaxError):
        return False
    return True


def _reach(server: str | AnyClient) -> dict[str, Any]:
    """Where the server is and who asks, as its driver takes it.

    Of a client only that is taken: its connections stay its owner's.
    """
    if isinstance(server, Connection | AsyncConnection):
        if server.closed:
            raise InvalidInput("a connection that is closed does not say where it went: open one")
        return {**server.info.get_parameters(), "password": server.info.password}
    if not isinstance(server, str):
        if callable(server.conninfo) or callable(server.kwargs):
            raise InvalidInput("a pool that asks anew for each connection: pass its URL instead")
        named = {name: value for name, value in (server.kwargs or {}).items() if name in _NAMED}
        return {**_parsed(server.conninfo), **named}
    return _parsed(server)


def _parsed(url: str) -> dict[str, Any]:
    try:
        return conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # Not in the driver's words: they quote what may be a password.
        why = "the driver can't read it; special characters are written %40, %2F and so on"
        raise InvalidURL("postgresql://…", why) from None


def _name(parameters: dict[str, Any], schema: str) -> str:
    """For messages: where it is, and never who asks or with what password."""
    host = parameters.get("host", "")
    port = f":{parameters['port']}" if parameters.get("port") else ""
    place = f"postgresql://{host}{port}/{parameters.get('dbname', '')}"
    return place if schema == DEFAULT_SCHEMA else f"{place}/{schema}"
