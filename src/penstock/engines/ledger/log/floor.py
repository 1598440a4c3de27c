"""The floor: the first log slot that still counts.

Vacuum raises it before it deletes anything below, so that a missing object is never taken for the
end of the log: a 404 at a slot means "not written yet" only if the floor, read after the 404, is
not above that slot. It only ever goes up, by compare-and-set.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from penstock.engines.ledger.names import FLOOR
from penstock.errors import Corrupt, ObjectNotFound, PreconditionFailed, PutUnknown
from penstock.ports.store import Create, ObjectStore, Replace, StoredObject
from penstock.runtime.services import Services
from penstock.wire.level import UNREADABLE, require_signature, signed

FIRST_SLOT: Final = 1
_TRIES_MAX: Final = 100
_READS_OF_A_BAD_FLOOR: Final = 2
"""An altered answer may be the network's doing."""


class FloorRecord(Struct, frozen=True):
    floor: int
    nonce: str
    """Makes the content, and so its version, unique: some stores' versions are content hashes."""


async def read_floor(store: ObjectStore) -> int:
    for _ in range(_READS_OF_A_BAD_FLOOR):
        try:
            return _decode(await store.get(FLOOR)).floor
        except ObjectNotFound:
            return FIRST_SLOT
        except Corrupt:
            continue
    return _decode(await store.get(FLOOR)).floor


async def raise_floor(store: ObjectStore, target: int, services: Services) -> int:
    """Raises the floor to at least `target`; answers where it is then."""
    backoff = services.backoff(0.05, 2.0)
    for _ in range(_TRIES_MAX):
        mode: Create | Replace
        try:
            stored = await store.get(FLOOR)
            current, mode = _decode(stored).floor, Replace(stored.version)
        except ObjectNotFound:
            current, mode = FIRST_SLOT, Create()
        if current >= target:
            return current
        record = FloorRecord(target, services.new_secret())
        try:
            await store.put(FLOOR, signed(msgspec.json.encode(record)), mode)
            return target
        except (PreconditionFailed, PutUnknown):
            # Refused, or perhaps done: reading it again tells.
            await services.clock.sleep(backoff.next_seconds())
    raise PutUnknown(store.name, FLOOR, f"no clear answer in {_TRIES_MAX} tries")


def _decode(stored: StoredObject) -> FloorRecord:
    require_signature(FLOOR, stored.data)
    try:
        return msgspec.json.decode(stored.data, type=FloorRecord)
    except UNREADABLE as error:
        raise Corrupt(FLOOR, f"it can't be read ({error})") from error
