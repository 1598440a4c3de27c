"""What names a queue and no other, wherever it is moved: a warehouse is of one queue for ever.

A queue in an object store has a nonce in its marker. In a store of records an object beside the
records has one, made when somebody first asks.
"""

from __future__ import annotations

from penstock.address import RECORD_SCHEMES, Address
from penstock.engines.ledger.marker import read_marker
from penstock.engines.names import IDENTITY
from penstock.errors import NoQueue, ObjectNotFound, PreconditionFailed
from penstock.pipeline.source.opening import opened_records, opened_store
from penstock.ports.store import Create, ObjectStore
from penstock.runtime.services import Services


async def queue_id(address: Address, services: Services) -> str:
    if address.scheme in RECORD_SCHEMES:
        async with opened_records(address, services) as records:
            return f"penstock-{await _nonce(records.side, services)}"
    async with opened_store(address, services) as store:
        marker = await read_marker(store)
    if marker is None:
        raise NoQueue(address.shown_url)
    return f"penstock-{marker.nonce}"


async def _nonce(side: ObjectStore, services: Services) -> str:
    try:
        return (await side.get(IDENTITY)).data.decode()
    except ObjectNotFound:
        nonce = services.new_secret()
    try:
        await side.put(IDENTITY, nonce.encode(), Create())
    except PreconditionFailed:
        # Somebody else asked, too: whichever is there counts.
        return (await side.get(IDENTITY)).data.decode()
    return nonce
