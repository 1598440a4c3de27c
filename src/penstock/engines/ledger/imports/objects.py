"""Reading import objects: whole, checked, and the few in use kept at hand.

A chunk is read by getting its whole object, since the next chunk is most often in the same one.
`AtHand` is what one batch of commands may look into; what it lacks is read between two tries.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

from penstock.engines.bad_reads import again_if_bad
from penstock.engines.ledger.names import import_key, run_prefix
from penstock.errors import Corrupt, ObjectNotFound, PenstockError
from penstock.kernel.manifest import ChunkPlace, NeedsChunk, Row
from penstock.kernel.segments import Segment
from penstock.ports.store import ObjectStore, Overwrite
from penstock.runtime.services import Services
from penstock.runtime.tasks import TaskSet
from penstock.wire.imports import decode_chunk, require_object

logger = logging.getLogger(__name__)

CACHE_BYTES_MAX: Final = 64 * 1024 * 1024
PREFETCHED_OBJECTS: Final = 2


class ImportObjects:
    def __init__(self, store: ObjectStore, services: Services) -> None:
        self._store = store
        self._services = services
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        self._cached_bytes = 0
        self._tasks = TaskSet("imports")
        self._is_prefetching = False

    async def keep(self, run: str, data: bytes) -> str:
        """Stores an object of a run and answers its key."""
        key = import_key(run, self._services.new_secret())
        # The name is ours alone, so overwriting can only repeat our own put.
        await self._store.put(key, data, Overwrite())
        return key

    async def delete(self, run: str) -> None:
        """Deletes everything that was written for a run."""
        keys = [entry.key async for entry in self._store.list(run_prefix(run))]
        for key in keys:
            await self._store.delete(key)

    async def rows(self, place: ChunkPlace) -> list[Row]:
        return decode_chunk(place, await self.read(place.key, place.digest))

    def cached(self, key: str) -> bytes | None:
        data = self._cache.get(key)
        if data is not None:
            self._cache.move_to_end(key)
        return data

    async def read(self, key: str, digest: str) -> bytes:
        data = self.cached(key)
        if data is None:
            data = await self._read(key, digest)
            if key not in self._cache:
                self._cache[key] = data
                self._cached_bytes += len(data)
            while self._cached_bytes > CACHE_BYTES_MAX and len(self._cache) > 1:
                self._cached_bytes -= len(self._cache.popitem(last=False)[1])
        return data

    def prefetch(self, segments: Iterable[Segment]) -> None:
        """Reads what will be needed next in the background, one after the other."""
        wanted = {segment.key: segment.digest for segment in segments}
        missing = [item for item in wanted.items() if item[0] not in self._cache]
        if missing and not self._is_prefetching:
            self._is_prefetching = True
            self._tasks.start("prefetch", self._prefetch(missing[:PREFETCHED_OBJECTS]))

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _prefetch(self, missing: Sequence[tuple[str, str]]) -> None:
        try:
            for key, digest in missing:
                await self.read(key, digest)
        except PenstockError:
            return  # whoever needs it reads it again, and is told
        except Exception:
            logger.exception("an import object was not read ahead")
        finally:
            self._is_prefetching = False

    async def _read(self, key: str, digest: str) -> bytes:
        return await again_if_bad(lambda: self._read_once(key, digest))

    async def _read_once(self, key: str, digest: str) -> bytes:
        try:
            data = (await self._store.get(key)).data
        except ObjectNotFound:
            raise Corrupt(key, "it has jobs that wait to be admitted, and is gone") from None
        # Megabytes: in a thread, so that commits go on.
        await asyncio.to_thread(require_object, key, data, digest)
        return data


class AtHand:
    """The chunks that one batch has, however often it is decided."""

    def __init__(self, objects: ImportObjects) -> None:
        self._objects = objects
        self._rows: dict[ChunkPlace, Sequence[Row]] = {}
        self._failed: dict[ChunkPlace, PenstockError] = {}

    def __call__(self, place: ChunkPlace) -> Sequence[Row]:
        rows = self._rows.get(place)
        if rows is None:
            if place in self._failed:
                raise self._failed[place]
            data = self._objects.cached(place.key)
            if data is None:
                raise NeedsChunk(place)
            rows = self._rows[place] = decode_chunk(place, data)
        return rows

    async def bring(self, place: ChunkPlace) -> None:
        """Reads a chunk; if that can't be done, whoever needs it is told why, and nobody else."""
        try:
            self._rows[place] = await self._objects.rows(place)
        except PenstockError as error:
            self._failed[place] = error
