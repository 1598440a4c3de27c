"""Where a warehouse is: an address like a queue's, and its store for code that has no loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from penstock.address import Address, parse
from penstock.errors import InvalidURL, ObjectNotFound
from penstock.ports.store import Entry, ObjectStore, PutMode, StoredObject, Written
from penstock.runtime.loops import LoopThread
from penstock.runtime.services import Services
from penstock.wiring import open_patient_store

_STORED: Final = ("file", "s3", "gs", "az")


def warehouse_address(url: str) -> Address:
    address = parse(url, {})
    if address.scheme not in _STORED:
        raise InvalidURL(url, "a warehouse is a folder or in a bucket: file, s3, gs or az")
    return address


class Place:
    """The store of a warehouse. Each call returns when it is done."""

    def __init__(self, address: Address, store: ObjectStore, loop: LoopThread) -> None:
        self.address = address
        self._store = store
        self._loop = loop

    def __repr__(self) -> str:
        return f"<Place {self.name}>"

    @property
    def name(self) -> str:
        return self._store.name

    def get(self, key: str) -> StoredObject | None:
        try:
            return self._loop.run(self._store.get(key))
        except ObjectNotFound:
            return None

    def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        return self._loop.run(self._store.put(key, data, mode))

    def delete(self, key: str) -> None:
        self._loop.run(self._store.delete(key))

    def entries(self, prefix: str) -> list[Entry]:
        async def listed() -> list[Entry]:
            return [entry async for entry in self._store.list(prefix)]

        return self._loop.run(listed())

    def is_empty(self) -> bool:
        async def looked() -> bool:
            async for _ in self._store.list(""):
                return False
            return True

        return self._loop.run(looked())


@contextmanager
def opened_place(url: str) -> Iterator[Place]:
    address = warehouse_address(url)
    loop = LoopThread("penstock warehouse")
    try:
        store = open_patient_store(address, Services())
        yield Place(address, store, loop)
        loop.run(store.close())
    finally:
        loop.stop()
