"""One connection to the file, blocking: transactions, waiting for the lock, what errors mean.

Writers take the file's one write lock when they begin (BEGIN IMMEDIATE), so that nothing they have
read can change before they write, and no transaction has to be taken back half way. Who finds it
taken tries again every few milliseconds: SQLite's own waiting grows to a tenth of a second, during
which a busy neighbour takes it a hundred times. Readers see the newest commit as of their beginning
and wait for nobody (WAL). A commit is on the disk when it returns (synchronous FULL), unless the
queue was opened with fsync=off.

Who may write neither the file nor its folder has no place for the index of the log beside it, which
readers share with writers. While there is such a log, its writer has made the index. While there is
none, nobody is writing, and the file is opened as one that never changes (immutable): SQLite then
locks nothing, keeps the pages it has read, and does not notice somebody who begins to write. So
we look at the file before and after each such read, and read again if it is another (`read`).

A file that was deleted, or that another was moved over, is still there for those who have it open,
and for nobody else: what they write would be lost. So before each transaction they look whether its
name still leads to it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from penstock.engines.records.sqlite.mounts import network_of
from penstock.engines.records.statements import migrations
from penstock.errors import (
    Corrupt,
    InvalidURL,
    NewerFormat,
    PenstockError,
    StoreDenied,
    StoreError,
    StoreFull,
    StoreUnavailable,
    Unsupported,
)
from penstock.runtime.clock import SystemClock, block

Answer = TypeVar("Answer")

Appearance: TypeAlias = tuple[int, ...]
"""Inode, bytes and time of a file without a log beside it; empty if there is one."""

READS_MAX: Final = 10
"""How often a file that changes under a reader is read before saying so."""
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
_LOG_BYTES_MAX: Final = 32 * 1024 * 1024
"""A log that a long reader has made grow is cut to this when it begins again."""

_BUSY: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DENIED: Final = {sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH}
_NO_ROOM: Final = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
_BROKEN: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class Database:
    def __init__(self, path: str, *, fsync: bool) -> None:
        self._path = path
        self._fsync = fsync
        self._connection: sqlite3.Connection | None = None
        self._opened_as: Appearance | None = None
        """What the file was like when it was opened, if this process may not or can't write it."""
        self._lacks_room = False
        self._file: tuple[int, int] | None = None
        """Device and inode of the file that is written."""
        self.openings = 0
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
        self._require_file()
        if not Path(self._path).exists():
            return False
        with self.translated():
            if not may_write(self._path):
                return self._has_tables(_mode(self._appearance()))
            try:
                return self._has_tables("?mode=ro")
            except sqlite3.OperationalError as error:
                if _code(error) not in _NO_ROOM:
                    raise
                return self._has_tables(_mode(self._appearance()))

    def _require_file(self) -> None:
        """SQLite itself takes a folder for a disk that fails."""
        if Path(self._path).is_dir():
            example = Path(self._path, "queue.db")
            raise InvalidURL(
                self.name, f"it is a folder; name a file, such as sqlite://{example} in it"
            )

    def _has_tables(self, mode: str) -> bool:
        uri = f"{Path(self._path).absolute().as_uri()}{mode}"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            named = connection.execute(
                "SELECT count(*) FROM sqlite_master WHERE name = 'penstock_schema'"
            )
            return bool(named.fetchone()[0])

    def open(self, *, make: bool) -> None:
        """Connects; `make` also makes or upgrades the tables."""
        if sqlite3.sqlite_version_info < _OLDEST:
            raise Unsupported("strict tables and JSON", f"SQLite {sqlite3.sqlite_version}")
        if (network := network_of(Path(self._path))) is not None:
            raise Unsupported(
                f"a file on {network}, over a network: put it on a disk of this machine, or take"
                " postgresql:// or redis://", self.name,
            )  # fmt: skip
        self._require_file()
        with self.translated():
            if make:
                Path(self._path).parent.mkdir(parents=True, exist_ok=True)
            try:
                self._connect_as_may_be()
                if make:
                    self.read(self._migrate)
            except BaseException:
                self.close()
                raise

    def _connect_as_may_be(self) -> None:
        try:
            self._connect(None if may_write(self._path) else self._appearance())
        except sqlite3.OperationalError as error:
            self.close()
            if _code(error) not in _NO_ROOM or not Path(self._path).exists():
                raise
            # There is no room for what writers keep beside the file; who only looks needs none.
            self._connect(self._appearance())
            self._lacks_room = True

    def _make_room(self) -> None:
        """Somebody may have, since it was opened without."""
        self.close()
        self._connect_as_may_be()
        if self._lacks_room:
            raise StoreFull(self.name, "")

    def _connect(self, opened_as: Appearance | None) -> None:
        self._opened_as, self._lacks_room, self._file = opened_as, False, None
        self.openings += 1
        self._connection = sqlite3.connect(
            f"{Path(self._path).absolute().as_uri()}{_mode(opened_as)}",
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=_CACHED_STATEMENTS,
        )
        if opened_as is None:
            self._patiently(self._let_shrink)
            self._patiently(lambda: self.connection.execute("PRAGMA journal_mode = WAL"))
            self._file = self._found_file()
        self.connection.execute(f"PRAGMA synchronous = {'FULL' if self._fsync else 'NORMAL'}")
        self.connection.execute(f"PRAGMA cache_size = -{_CACHE_KIBIBYTES}")
        self.connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        self.connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES_MAX}")

    def _let_shrink(self) -> None:
        """A new file, that is: later it would take a copy of all of it, and that of an application
        is its own."""
        if self.execute("PRAGMA page_count").fetchone() == (0,):
            self.execute("PRAGMA auto_vacuum = INCREMENTAL")

    def _appearance(self) -> Appearance:
        # The log first: if one appears behind it, the next look tells. An empty one says nothing.
        with suppress(FileNotFoundError):
            if Path(f"{self._path}-wal").stat().st_size:
                return ()
        found = Path(self._path).stat()
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _found_file(self) -> tuple[int, int] | None:
        with suppress(FileNotFoundError):
            found = Path(self._path).stat()
            return found.st_dev, found.st_ino
        return None

    def _require_same_file(self) -> None:
        if self._file is not None and self._found_file() != self._file:
            raise StoreError(
                self.name, "", "the file was deleted or replaced while the queue was open, so"
                " nothing is read or written any more; open the queue again",
            )  # fmt: skip

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def execute(self, statement: str, parameters: Any = ()) -> sqlite3.Cursor:
        return self.connection.execute(statement, parameters)

    def read(self, act: Callable[[], Answer]) -> Answer:
        """What `act` reads, and again if the file has changed under a connection that can't tell.

        Such a connection may have read half of the one and half of the other, so whatever fails is
        tried on a new one before it is believed.
        """
        if self._opened_as is None:
            with self.translated():
                self._require_same_file()
            return act()
        is_doubted = False
        with self.translated():
            for _ in range(READS_MAX):
                appearance = self._appearance()
                is_new = is_doubted or appearance != self._opened_as
                try:
                    if is_new:
                        self.connection.close()
                        self._connect(appearance)
                    answer = act()
                except Exception:
                    if is_new and self._appearance() == appearance:
                        raise
                    is_doubted = True
                else:
                    if self._appearance() == appearance:
                        return answer
        raise StoreUnavailable(self.name, "", "others write it all the time")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction that holds the write lock; an error takes back everything."""
        with self.translated():
            if self._lacks_room:
                self._make_room()
            self._require_same_file()
            self._patiently(lambda: self.connection.execute("BEGIN IMMEDIATE"))
            try:
                yield
                # A reader that has just begun can't be in the way, a checkpoint for a moment can.
                self._patiently(lambda: self.connection.execute("COMMIT"))
            except BaseException:
                self._take_back()
                raise

    def alone(self, statement: str) -> None:
        """Something that is a transaction by itself, and for its own good."""
        with self.translated():
            if self._lacks_room:
                self._make_room()
            self._require_same_file()
            # As a script, since a step that answers without columns would end an `execute`.
            self._patiently(lambda: self.connection.executescript(statement))

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


def _mode(opened_as: Appearance | None) -> str:
    """How a file is opened: to be written, to be read with its log, or as one that stays."""
    if opened_as is None:
        return ""
    return "?mode=ro&immutable=1" if opened_as else "?mode=ro"


def may_write(path: str) -> bool:
    """Whether the file and what SQLite keeps beside it can be written, or made."""
    folder = Path(path).absolute().parent
    if not folder.exists():
        return True
    return os.access(folder, os.W_OK) and (not Path(path).exists() or os.access(path, os.W_OK))


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
