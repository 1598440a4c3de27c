"""Payloads and results that are too large to be inline: objects beside the queue, each of one job.

The name begins with the time it was given, so that a sweep can forbid by one event the publication
of everything named before, and only then delete what nobody refers to.
"""

from __future__ import annotations

from penstock.engines.ledger.calibration import CommitClock
from penstock.engines.ledger.names import data_key
from penstock.ports.store import ObjectStore, Overwrite
from penstock.runtime.services import Services


class SideObjects:
    def __init__(self, store: ObjectStore, services: Services, clock: CommitClock) -> None:
        self._store = store
        self._services = services
        self._clock = clock

    async def keep(self, id: str, data: bytes) -> str:
        key = data_key(id, self._clock.now(), self._services.new_secret())
        # The name is ours alone, so overwriting can only repeat our own put.
        await self._store.put(key, data, Overwrite())
        return key

    async def fetch(self, key: str) -> bytes:
        return (await self._store.get(key)).data
