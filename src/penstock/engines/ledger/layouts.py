"""From a store to its journal: the marker says which layout it has."""

from __future__ import annotations

from typing import Final

from penstock.engines.ledger.journal import Journal, Listener
from penstock.engines.ledger.log.journal import LogJournal
from penstock.engines.ledger.marker import ensure_marker
from penstock.engines.ledger.single.journal import SingleJournal
from penstock.errors import InvalidURL
from penstock.ports.store import ObjectStore
from penstock.runtime.services import Services

LEDGER_LAYOUTS: Final = ("log", "single")


async def open_journal(
    store: ObjectStore, layout: str | None, services: Services, listener: Listener
) -> Journal:
    """Opens the queue in the store, making it first if it is new."""
    found = await ensure_marker(store, layout, services)
    if found not in LEDGER_LAYOUTS:
        raise InvalidURL(store.name, f"the queue there has layout {found!r}, which is no ledger")
    return await open_found(store, found, services, listener)


async def open_found(
    store: ObjectStore, layout: str, services: Services, listener: Listener
) -> Journal:
    """Opens the queue in the store, whose layout is known."""
    journal: Journal
    if layout == "log":
        journal = LogJournal(store, services, listener)
    else:
        journal = SingleJournal(store, services, listener)
    await journal.open()
    return journal
