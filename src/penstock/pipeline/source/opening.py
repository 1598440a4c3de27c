"""From an address to what can be read there. A queue that is not there is not made."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

from penstock.address import RECORD_SCHEMES, Address
from penstock.engines.ledger.marker import ensure_marker, read_marker
from penstock.errors import NoQueue
from penstock.pipeline.source.kept import BackendSource
from penstock.pipeline.source.log import LogSource
from penstock.pipeline.source.records import RecordsSource
from penstock.ports.backend import Backend
from penstock.ports.records import RecordStore
from penstock.ports.store import ObjectStore
from penstock.runtime.services import Services
from penstock.wiring import open_backend, open_patient_store, open_records

QueueSource: TypeAlias = LogSource | RecordsSource | BackendSource


@asynccontextmanager
async def opened(address: Address) -> AsyncIterator[QueueSource]:
    services = Services()
    if address.scheme in RECORD_SCHEMES:
        async with opened_records(address, services) as records:
            yield RecordsSource(records)
            return
    async with opened_store(address, services) as store:
        if await read_marker(store) is None:
            raise NoQueue(address.shown_url)
        if await ensure_marker(store, address.options.layout, services) == "log":
            yield LogSource(store)
            return
    async with opened_backend(address, services) as backend:
        yield BackendSource(backend)


@asynccontextmanager
async def opened_backend(address: Address, services: Services) -> AsyncIterator[Backend]:
    """To be asked only where there is a queue: it would be made."""
    backend = open_backend(address, services)
    await backend.start()
    try:
        yield backend
    finally:
        await backend.stop()


@asynccontextmanager
async def opened_store(address: Address, services: Services) -> AsyncIterator[ObjectStore]:
    store = open_patient_store(address, services)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def opened_records(address: Address, services: Services) -> AsyncIterator[RecordStore]:
    store = open_records(address, services)
    try:
        if not await store.exists():
            raise NoQueue(address.shown_url)
        await store.open()
        yield store
    finally:
        await store.close()
