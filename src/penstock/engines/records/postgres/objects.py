"""The objects beside the records, in a table of the same schema, stamped by the server's clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final, assert_never

from penstock.engines.records.postgres.database import Database
from penstock.engines.records.postgres.steps import Rows, Script, Step
from penstock.errors import ObjectNotFound, PreconditionFailed, PutUnknown, StoreUnavailable
from penstock.ports.store import Create, Entry, Overwrite, PutMode, Replace, StoredObject, Written
from penstock.runtime.services import Services
from penstock.stores.keys import check_key, check_prefix
from penstock.stores.threads import Threads

_AFTER_ANY_KEY: Final = "\x7f"
_PAGE_KEYS: Final = 1_000


class Objects:
    """An `ObjectStore` whose clock is the server's."""

    def __init__(
        self, database: Database, threads: Threads, sql: dict[str, str], services: Services
    ) -> None:
        self._database = database
        self._threads = threads
        self._sql = sql
        self._services = services

    @property
    def name(self) -> str:
        return self._database.name

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        check_key(key)
        given: dict[str, Any] = {"key": key, "version": self._services.new_secret(), "data": data}
        match mode:
            case Create():
                rows = await self._once("create_object", given)
            case Replace(found):
                rows = await self._once("replace_object", {**given, "found": found})
            case Overwrite():
                # The same again gives the same.
                rows = await self._rows("overwrite_object", given)
            case _:
                assert_never(mode)
        if not rows:
            raise PreconditionFailed(self.name, key)
        return Written(given["version"], rows[0][0])

    async def get(self, key: str) -> StoredObject:
        check_key(key)
        rows = await self._rows("get_object", {"key": key})
        if not rows:
            raise ObjectNotFound(self.name, key)
        return StoredObject(*rows[0])

    async def delete(self, key: str) -> None:
        check_key(key)
        await self._rows("delete_object", {"key": key})

    async def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        check_prefix(prefix)
        asked = {"prefix": prefix, "end": prefix + _AFTER_ANY_KEY, "count": _PAGE_KEYS}
        after = start_after
        while True:
            page = await self._rows("list_objects", {**asked, "after": after})
            for row in page:
                yield Entry(*row)
            if len(page) < _PAGE_KEYS:
                return
            after = page[-1][0]

    async def close(self) -> None:
        """The connections belong to the records."""

    async def _rows(self, name: str, parameters: dict[str, Any]) -> Rows:
        return await self._threads.submit(
            lambda: self._database.play(lambda: self._script(name, parameters))
        )

    async def _once(self, name: str, parameters: dict[str, Any]) -> Rows:
        return await self._threads.submit(lambda: self._put(name, parameters))

    def _put(self, name: str, parameters: dict[str, Any]) -> Rows:
        """A put with a condition is not sent again: nobody knows what became of it."""
        sent = False

        def script() -> Script[Rows]:
            nonlocal sent
            sent = True
            return (yield from self._script(name, parameters))

        try:
            with self._database.connection() as connection:
                return self._database.act(connection, script())
        except StoreUnavailable as error:
            if not sent:
                raise
            raise PutUnknown(self.name, parameters["key"], str(error)) from error

    def _script(self, name: str, parameters: dict[str, Any]) -> Script[Rows]:
        results = yield [Step(self._sql[name], parameters)]
        return results[0]
