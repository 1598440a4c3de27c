"""From the options of a command to an open queue, and from a coroutine to its result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, TypeVar

from penstock.address import RECORD_SCHEMES, Address, parse
from penstock.cli.output import err
from penstock.client.queue import Queue
from penstock.errors import InvalidInput, NoQueue
from penstock.ports.records import SERVER_LOGGER
from penstock.runtime.loops import new_loop
from penstock.runtime.services import Services
from penstock.wiring import open as open_queue
from penstock.wiring import open_records, open_store

Result = TypeVar("Result")

SILENT_SECONDS: Final = 1.0
"""How long something may take before a spinner says that it goes on."""


def run(work: Coroutine[Any, Any, Result]) -> Result:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work)


def address_of(url: str | None, tenant: str | None = None) -> Address:
    if not url:
        raise InvalidInput(
            "no queue's address: pass --url or set PENSTOCK_URL, "
            "for example --url file:///var/lib/queue"
        )
    return parse(url, {} if tenant is None else {"tenant": tenant})


@asynccontextmanager
async def opened(
    url: str | None,
    tenant: str | None = None,
    *,
    make: bool = False,
    tells_of_server: bool = False,
    **options: Any,
) -> AsyncIterator[Queue]:
    """The queue, open. Only commands that put something in make one that is not there, and only
    those that are about the server itself, or stay, tell what it is like.
    """
    address = address_of(url, tenant)
    if not make:
        await require_queue(address)
    queue = open_queue(address.url, tenant=address.options.tenant, **options)
    with spinner(f"opening {address.shown_url}"), telling_of_server(tells_of_server):
        await queue.start()
    try:
        yield queue
    finally:
        await queue.close()


async def require_queue(address: Address) -> None:
    if address.scheme == "memory":
        return
    if address.scheme in RECORD_SCHEMES:
        records = open_records(address, Services())
        try:
            if not await records.exists():
                raise NoQueue(address.shown_url)
        finally:
            await records.close()
        return
    from penstock.engines.ledger.marker import read_marker

    store = open_store(address)
    try:
        if await read_marker(store) is None:
            raise NoQueue(address.shown_url)
    finally:
        await store.close()


@contextmanager
def telling_of_server(is_wanted: bool) -> Iterator[None]:
    """What a server is like, such as how durable, is news at the start of a worker. Whoever lists
    jobs would read the same line every time."""
    logger = logging.getLogger(SERVER_LOGGER)
    level = logger.level
    if not is_wanted:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def spinner(message: str) -> Iterator[None]:
    """Says on a terminal what takes so long, once it does."""
    console = err()
    if not console.is_terminal:
        yield
        return
    status = console.status(message)
    timer = asyncio.get_running_loop().call_later(SILENT_SECONDS, status.start)
    try:
        yield
    finally:
        timer.cancel()
        status.stop()
