"""From an address to what can be read there. A queue that is not there is not made."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

from penstock.address import RECORD_SCHEMES, Address
from penstock.engines.ledger.marker import ensure_marker, read_marker
from penstock.errors import InvalidOption
from penstock.pipeline.source.kept import BackendSource
from penstock.pipeline.source.log import LogSource
from penstock.ports.store import ObjectStore
from penstock.runtime.services import Services
from penstock.wiring import open_backend, open_patient_store, open_records

QueueSource: TypeAlias = LogSource | BackendSource


@asynccontextmanager
async def opened(address: Address) -> AsyncIterator[QueueSource]:
    services = Services()
    if address.scheme in RECORD_SCHEMES:
        await _require_records(address, services)
    else:
        async with opened_store(address, services) as store:
            if await read_marker(store) is None:
                raise _no_queue(address)
            if await ensure_marker(store, address.options.layout, services) == "log":
                yield LogSource(store)
                return
    backend = open_backend(address, services)
    await backend.start()
    try:
        yield BackendSource(backend)
    finally:
        await backend.stop()


@asynccontextmanager
async def opened_store(address: Address, services: Services) -> AsyncIterator[ObjectStore]:
    store = open_patient_store(address, services)
    try:
        yield store
    finally:
        await store.close()


async def _require_records(address: Address, services: Services) -> None:
    store = open_records(address, services)
    try:
        if not await store.exists():
            raise _no_queue(address)
    finally:
        await store.close()


def _no_queue(address: Address) -> InvalidOption:
    return InvalidOption("url", address.shown_url, "there is no queue")
