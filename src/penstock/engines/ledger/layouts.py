"""From a store to its journal: the marker says which layout it has."""

from __future__ import annotations

from penstock.engines.ledger.journal import Journal, Listener
from penstock.engines.ledger.log.journal import LogJournal
from penstock.engines.ledger.marker import ensure_marker
from penstock.engines.ledger.single.journal import SingleJournal
from penstock.ports.store import ObjectStore
from penstock.runtime.services import Services


async def open_journal(
    store: ObjectStore, layout: str | None, services: Services, listener: Listener
) -> Journal:
    """Opens the queue in the store, making it first if it is new."""
    found = await ensure_marker(store, layout, services)
    journal: Journal
    if found == "log":
        journal = LogJournal(store, services, listener)
    else:
        journal = SingleJournal(store, services, listener)
    await journal.open()
    return journal
