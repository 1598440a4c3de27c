"""The objects beside the records, stamped by the server's clock.

An object is its time (8 bytes), its version (32) and its data.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, assert_never

from penstock.engines.names import DATA
from penstock.engines.records.redis.connection import Connection
from penstock.engines.records.redis.keys import Keys
from penstock.engines.records.redis.packing import time_in
from penstock.errors import ObjectNotFound, PreconditionFailed, PutUnknown, StoreUnavailable
from penstock.ports.store import Create, Entry, Overwrite, PutMode, Replace, StoredObject, Written
from penstock.runtime.services import Services
from penstock.stores.keys import check_key, check_prefix

_VERSION: Final = slice(8, 40)
_PAGE_KEYS: Final = 1_000


class Objects:
    """An `ObjectStore`; it tries everything once."""

    def __init__(self, connection: Connection, keys: Keys, services: Services) -> None:
        self._connection = connection
        self._keys = keys
        self._services = services

    @property
    def name(self) -> str:
        return self._connection.name

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        check_key(key)
        version = self._new_version()
        try:
            at = await self._connection.run_once(
                "put_object", key, _condition(mode), version, data, adds=key.startswith(DATA)
            )
        except StoreUnavailable as error:
            raise PutUnknown(self.name, key, str(error)) from error
        if at is None:
            raise PreconditionFailed(self.name, key)
        return Written(version, float(at))

    async def get(self, key: str) -> StoredObject:
        check_key(key)
        value = await self._connection.ask_once("GET", self._keys.object(key))
        if value is None:
            raise ObjectNotFound(self.name, key)
        return StoredObject(value[_VERSION.stop :], value[_VERSION].decode(), time_in(value))

    async def delete(self, key: str) -> None:
        check_key(key)
        await self._connection.ask_once("DEL", self._keys.object(key))
        await self._connection.ask_once("ZREM", self._keys.objects, key)

    async def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        check_prefix(prefix)
        after = start_after
        while True:
            page = await self._connection.run_once("list_objects", prefix, after, _PAGE_KEYS)
            for key, length, beginning in page:
                # What was deleted half-way has a name and no value.
                if length:
                    yield Entry(key.decode(), length - _VERSION.stop, time_in(beginning))
            if len(page) < _PAGE_KEYS:
                return
            after = page[-1][0].decode()

    async def close(self) -> None:
        """The connection belongs to the records."""

    def _new_version(self) -> str:
        length = _VERSION.stop - _VERSION.start
        return self._services.new_secret()[:length].ljust(length, "0")


def _condition(mode: PutMode) -> str:
    match mode:
        case Create():
            return ""
        case Replace(found):
            return found
        case Overwrite():
            return "*"
        case _:
            assert_never(mode)
