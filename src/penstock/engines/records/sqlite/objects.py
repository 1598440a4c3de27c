"""The objects beside the records, in a table of the same file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, assert_never

from penstock.engines.records.sqlite.database import Database
from penstock.engines.records.statements import statements
from penstock.errors import ObjectNotFound, PreconditionFailed
from penstock.ports.store import Create, Entry, Overwrite, PutMode, Replace, StoredObject, Written
from penstock.runtime.services import Services
from penstock.stores.keys import check_key, check_prefix
from penstock.stores.threads import Threads

_SQL: Final = statements(__package__, "objects.sql")
_AFTER_ANY_KEY: Final = "\x7f"
_PAGE_KEYS: Final = 1_000


class Objects:
    """An `ObjectStore` whose clock is this machine's."""

    def __init__(self, database: Database, threads: Threads, services: Services) -> None:
        self._database = database
        self._threads = threads
        self._services = services

    @property
    def name(self) -> str:
        return self._database.name

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        check_key(key)
        version, now = self._services.new_secret(), self._services.clock.now()
        put: tuple[str, tuple[Any, ...]]
        match mode:
            case Create():
                put = "create_object", (key, version, now, data)
            case Replace(found):
                put = "replace_object", (version, now, data, key, found)
            case Overwrite():
                put = "overwrite_object", (key, version, now, data)
            case _:
                assert_never(mode)
        if await self._threads.submit(lambda: self._write(*put)) == 0:
            raise PreconditionFailed(self.name, key)
        return Written(version, now)

    async def get(self, key: str) -> StoredObject:
        check_key(key)
        rows = await self._threads.submit(lambda: self._read("get_object", (key,)))
        if not rows:
            raise ObjectNotFound(self.name, key)
        return StoredObject(*rows[0])

    async def delete(self, key: str) -> None:
        check_key(key)
        await self._threads.submit(lambda: self._write("delete_object", (key,)))

    async def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        check_prefix(prefix)
        after = start_after
        while True:
            asked = prefix, prefix + _AFTER_ANY_KEY, after, _PAGE_KEYS
            page = await self._threads.submit(_bound(self._read, "list_objects", asked))
            for row in page:
                yield Entry(*row)
            if len(page) < _PAGE_KEYS:
                return
            after = page[-1][0]

    async def close(self) -> None:
        """The file belongs to the records."""

    def _write(self, name: str, parameters: tuple[Any, ...]) -> int:
        with self._database.writing():
            return self._database.execute(_SQL[name], parameters).rowcount

    def _read(self, name: str, parameters: tuple[Any, ...]) -> Sequence[Any]:
        with self._database.translated():
            return self._database.read(
                lambda: self._database.execute(_SQL[name], parameters).fetchall()
            )


def _bound(act: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    return lambda: act(*arguments)
