"""One connection to the file, blocking: transactions, waiting for the lock, what errors mean.

Writers take the file's one write lock when they begin (BEGIN IMMEDIATE), so that nothing they have
read can change before they write, and no transaction has to be taken back half way. Who finds it
taken tries again every few milliseconds: SQLite's own waiting grows to a tenth of a second, during
which a busy neighbour takes it a hundred times. Readers see the newest commit as of their beginning
and wait for nobody (WAL). A commit is on the disk when it returns (synchronous FULL), unless the
queue was opened with fsync=off.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from penstock.engines.records.statements import migrations
from penstock.errors import (
    Corrupt,
    NewerFormat,
    PenstockError,
    StoreDenied,
    StoreError,
    StoreFull,
    StoreUnavailable,
    Unsupported,
)
from penstock.runtime.clock import SystemClock, block

BUSY_SECONDS_MAX: Final = 30.0
"""How long to wait for a lock that others hold before saying so."""
_BUSY_SECONDS: Final = 0.0005
_BUSY_STEP_MAX: Final = 8
_CACHED_STATEMENTS: Final = 256
_OLDEST: Final = (3, 38, 0)
_CACHE_KIBIBYTES: Final = 32 * 1024
"""Enough that the indexes of a deep queue are not read again for every turn."""
_CHECKPOINT_PAGES: Final = 4_000
"""A checkpoint syncs the file twice; after 16 MiB of changes it is worth it."""

_BUSY: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DENIED: Final = {sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH}
_BROKEN: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class Database:
    def __init__(self, path: str, *, fsync: bool) -> None:
        self._path = path
        self._fsync = fsync
        self._connection: sqlite3.Connection | None = None
        self._clock = SystemClock()

    @property
    def name(self) -> str:
        return f"sqlite://{self._path}"

    @property
    def connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreUnavailable(self.name, "", "it was closed")
        return self._connection

    def has_tables(self) -> bool:
        """Whether a queue is there, without making so much as a file."""
        if not Path(self._path).exists():
            return False
        with self.translated():
            uri = f"{Path(self._path).as_uri()}?mode=ro"
            with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
                named = connection.execute(
                    "SELECT count(*) FROM sqlite_master WHERE name = 'penstock_schema'"
                )
                return bool(named.fetchone()[0])

    def open(self, *, make: bool) -> None:
        """Connects; `make` also makes or upgrades the tables."""
        if sqlite3.sqlite_version_info < _OLDEST:
            raise Unsupported("strict tables and JSON", f"SQLite {sqlite3.sqlite_version}")
        with self.translated():
            if make:
                Path(self._path).parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                self._path,
                timeout=0,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=_CACHED_STATEMENTS,
            )
            self._patiently(lambda: self.connection.execute("PRAGMA journal_mode = WAL"))
            self.connection.execute(f"PRAGMA synchronous = {'FULL' if self._fsync else 'NORMAL'}")
            self.connection.execute(f"PRAGMA cache_size = -{_CACHE_KIBIBYTES}")
            self.connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            if make:
                self._migrate()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def execute(self, statement: str, parameters: Any = ()) -> sqlite3.Cursor:
        return self.connection.execute(statement, parameters)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction that holds the write lock; an error takes back everything."""
        with self.translated():
            self._patiently(lambda: self.connection.execute("BEGIN IMMEDIATE"))
            try:
                yield
                # A reader that has just begun can't be in the way, a checkpoint for a moment can.
                self._patiently(lambda: self.connection.execute("COMMIT"))
            except BaseException:
                self._take_back()
                raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A transaction that sees one moment and locks nothing."""
        with self.translated():
            self._patiently(lambda: self.connection.execute("BEGIN"))
            try:
                yield
            finally:
                self._take_back()

    @contextmanager
    def translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise self._translate(error) from error

    def _take_back(self) -> None:
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def _patiently(self, act: Callable[[], Any]) -> None:
        started_at, step = self._clock.elapsed(), 1
        while True:
            try:
                act()
                return
            except sqlite3.OperationalError as error:
                waited = self._clock.elapsed() - started_at
                if _code(error) not in _BUSY or waited > BUSY_SECONDS_MAX:
                    raise
            block(step * _BUSY_SECONDS)
            step = step % _BUSY_STEP_MAX + 1

    def _migrate(self) -> None:
        scripts = migrations(__package__)
        if self._version() == len(scripts):
            return
        with self.writing():
            version = self._version()
            if version > len(scripts):
                raise NewerFormat(self.name, version, len(scripts))
            if version == 0:
                self.execute("CREATE TABLE penstock_schema (version INTEGER NOT NULL) STRICT")
                self.execute("INSERT INTO penstock_schema VALUES (0)")
            for script in scripts[version:]:
                for statement in _split(script):
                    self.execute(statement)
            self.execute("UPDATE penstock_schema SET version = ?", (len(scripts),))

    def _version(self) -> int:
        try:
            row = self.execute("SELECT version FROM penstock_schema").fetchone()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return 0
            raise
        return int(row[0])

    def _translate(self, error: sqlite3.Error | OSError) -> PenstockError:
        if isinstance(error, OSError):
            return StoreDenied(self.name, "", str(error))
        code = _code(error)
        if code in _BUSY:
            return StoreUnavailable(self.name, "", "another process has held its lock for long")
        if code == sqlite3.SQLITE_FULL:
            return StoreFull(self.name, "")
        if code in _DENIED or code == sqlite3.SQLITE_CANTOPEN:
            return StoreDenied(self.name, "", str(error))
        if code in _BROKEN:
            return Corrupt(self.name, f"SQLite can't read it ({error})")
        if code == sqlite3.SQLITE_IOERR:
            return StoreUnavailable(self.name, "", str(error))
        return StoreError(self.name, "", str(error))


def _code(error: sqlite3.Error) -> int:
    """The primary code; what Python itself refuses has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _split(script: str) -> Iterator[str]:
    """The statements of a script, since `executescript` would end the transaction."""
    statement = ""
    for line in script.splitlines():
        if line.startswith("--"):
            continue
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
