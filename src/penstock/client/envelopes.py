"""Values on their way in and out: encoded, measured, kept beside the queue when they are large."""

from __future__ import annotations

import asyncio
from copy import copy, deepcopy
from typing import Any

from msgspec import Raw

from penstock.errors import PayloadTooLarge
from penstock.kernel.commands import Receipt
from penstock.kernel.job import ABSENT, Job
from penstock.ports.backend import Backend
from penstock.wire.codecs import Codecs, to_inline


class Envelopes:
    def __init__(
        self, backend: Backend, codecs: Codecs, *, inline_bytes_max: int, offload: bool
    ) -> None:
        self._backend = backend
        self._codecs = codecs
        self._inline_bytes_max = inline_bytes_max
        self._offload = offload

    def seal(self, what: str, value: Any, codec: str | None) -> tuple[Raw, str] | None:
        """The value as it stands in an event; None if it is too large for that."""
        data, name = self._codecs.encode(value, codec)
        if len(data) <= self._inline_bytes_max:
            return to_inline(data, name), name
        if not self._offload:
            raise PayloadTooLarge(what, len(data), self._inline_bytes_max)
        return None

    async def keep(self, id: str, value: Any, codec: str | None) -> tuple[str, str]:
        """Stores a large value beside the queue; answers its codec and key."""
        data, name = self._codecs.encode(value, codec)
        return name, await self._backend.keep(id, data)

    def is_inline(self, job: Job) -> bool:
        return job.payload_key is None and job.result_key is None

    def open_inline(self, job: Job) -> Job:
        """The job as people see it: a copy with its values decoded."""
        seen = copy(job)
        decode = self._codecs.decode_inline
        seen.payload = decode(job.payload, job.codec)
        seen.result = None if job.result is ABSENT else decode(job.result, job.result_codec)
        if job.meta is not None:
            # What people do to theirs must not happen to the queue's.
            seen.meta = deepcopy(job.meta)
        return seen

    async def open(self, job: Job) -> Job:
        seen = self.open_inline(job)
        if job.payload_key is not None:
            seen.payload = await self._fetch(job.payload_key, job.codec)
        if job.result_key is not None:
            seen.result = await self._fetch(job.result_key, job.result_codec)
        return seen

    async def open_all(self, jobs: list[Job]) -> list[Job]:
        if all(map(self.is_inline, jobs)):
            return list(map(self.open_inline, jobs))
        return list(await asyncio.gather(*map(self.open, jobs)))

    async def result(self, inline: Raw | None, codec: str, key: str | None) -> Any:
        if key is not None:
            return await self._fetch(key, codec)
        return None if inline is None else self._codecs.decode_inline(inline, codec)

    async def open_receipt(self, receipt: Receipt) -> Receipt:
        result = await self.result(receipt.result, receipt.result_codec, receipt.result_key)
        return Receipt(
            receipt.id,
            receipt.status,
            receipt.state,
            result,
            life=receipt.life,
            since=receipt.since,
        )

    async def _fetch(self, key: str, codec: str) -> Any:
        return self._codecs.decode(await self._backend.fetch(key), codec)
