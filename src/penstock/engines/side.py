"""Payloads and results that are too large to be inline: objects beside the queue, each of one job.

The name begins with the time it was given, so that a sweep can forbid by one event the publication
of everything named before, and only then delete what nobody refers to. A sweep by a clock that was
ahead forbids names of times that have yet to come: until then names are given above that, and what
has one stays. The name goes on with the digest of the content, so that nobody works on an altered
payload.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from penstock.engines.bad_reads import again_if_bad
from penstock.engines.names import data_key, digest_in
from penstock.errors import Corrupt
from penstock.ports.store import ObjectStore, Overwrite
from penstock.runtime.services import Services
from penstock.wire.level import digest

_MILLISECOND: Final = 0.001
"""What times in names are rounded down to."""


class Now(Protocol):
    def now(self) -> float: ...


class SideObjects:
    def __init__(
        self,
        store: ObjectStore,
        services: Services,
        clock: Now,
        swept_before: Callable[[], float],
    ) -> None:
        """`swept_before` says which names are forbidden, as far as is known."""
        self._swept_before = swept_before
        self._store = store
        self._services = services
        self._clock = clock

    async def keep(self, id: str, data: bytes) -> str:
        at = max(self._clock.now(), self._swept_before() + _MILLISECOND)
        key = data_key(id, at, digest(data), len(data), self._services.new_secret())
        # The name is ours alone, so overwriting can only repeat our own put.
        await self._store.put(key, data, Overwrite())
        return key

    async def fetch(self, key: str) -> bytes:
        async def read() -> bytes:
            data = (await self._store.get(key)).data
            if digest(data) != digest_in(key):
                raise Corrupt(key, "it is not what was kept: truncated or altered")
            return data

        return await again_if_bad(read)
