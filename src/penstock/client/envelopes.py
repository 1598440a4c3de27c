"""Values on their way in and out: encoded, measured, kept beside the queue when they are large."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from msgspec import Raw, convert
from msgspec.inspect import type_info
from msgspec.structs import replace

from penstock.engines.names import size_in
from penstock.errors import Corrupt, InvalidInput, ObjectNotFound, PayloadTooLarge
from penstock.errors.input import shown
from penstock.kernel.commands import Receipt
from penstock.kernel.events import Adopted, Completed, Enqueued, JobEvent
from penstock.kernel.job import ABSENT, Job, State
from penstock.kernel.plain import describe
from penstock.ports.backend import Backend
from penstock.wire.codecs import Beside, Codecs, Undecodable, to_inline

Payload = TypeVar("Payload")

ENQUEUE_VACUUMED: Final = "its enqueue was vacuumed, and the payload with it"
COMPLETION_VACUUMED: Final = "its completion was vacuumed, and the result with it"


class JobOf(Job, Generic[Payload]):
    """A job whose payload was asked for as a type: `queue.claim(payload=Order)`."""

    if TYPE_CHECKING:
        payload: Payload


def check_type(kind: object) -> None:
    """Before anything is claimed for it."""
    try:
        type_info(kind)
    except Exception as error:  # noqa: BLE001  # what is no type may raise anything
        raise InvalidInput(
            f"claim(payload={shown(kind)}): it must be a type ({type(error).__name__})"
        ) from None


def typed(job: Job, kind: type[Payload]) -> JobOf[Payload]:
    """The same job with its payload as that type, or `Undecodable` where it does not fit."""
    one: JobOf[Any] = JobOf(*(getattr(job, name) for name in job.__struct_fields__))
    if not isinstance(job.payload, Undecodable):
        try:
            # JSON has no other keys than text; the type says what they were.
            one.payload = convert(job.payload, kind, str_keys=True)
        except Exception as error:  # noqa: BLE001  # a type's own hooks may raise anything
            name = getattr(kind, "__name__", str(kind))
            one.payload = Undecodable(job.codec, None, f"it is no {name}: {describe(error)}")
    return one


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
        data, name = self._codecs.encode(value, codec, what)
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
        seen: Job = job.__copy__()  # type: ignore[attr-defined]  # copy.copy would only look it up
        decode = self._codecs.decode_inline
        seen.payload = decode(job.payload, job.codec)
        seen.result = None if job.result is ABSENT else decode(job.result, job.result_codec)
        if job.meta is not None:
            # What people do to theirs must not happen to the queue's.
            seen.meta = deepcopy(job.meta)
        return seen

    def open_listed(self, job: Job) -> Job:
        """The same of a job in a list, which says of large values how large they are."""
        seen = self.open_inline(job)
        if job.payload_key is not None:
            seen.payload = Beside(job.codec, size_in(job.payload_key))
        if job.result_key is not None:
            seen.result = Beside(job.result_codec, size_in(job.result_key))
        return seen

    async def open(self, job: Job) -> Job:
        seen = self.open_inline(job)
        if job.payload_key is not None:
            seen.payload = await self._fetch(job.payload_key, job.codec)
        if job.result_key is not None:
            seen.result = await self._fetch(job.result_key, job.result_codec)
        return seen

    async def open_whole(self, job: Job) -> Job:
        """The same of a job for which the log was asked: what a completed one lacks still is gone
        for good."""
        seen = await self.open(job)
        if job.state is State.COMPLETED:
            if job.payload is ABSENT and job.payload_key is None:
                seen.payload = Undecodable(job.codec, None, ENQUEUE_VACUUMED)
            if job.result is ABSENT and job.result_key is None:
                seen.result = Undecodable(job.result_codec, None, COMPLETION_VACUUMED)
        return seen

    async def open_all(self, jobs: list[Job]) -> list[Job]:
        if all(map(self.is_inline, jobs)):
            return list(map(self.open_inline, jobs))
        return list(await asyncio.gather(*map(self.open, jobs)))

    async def result(self, inline: Raw | None, codec: str, key: str | None) -> Any:
        if key is not None:
            return await self._fetch(key, codec)
        return None if inline is None else self._codecs.decode_inline(inline, codec)

    async def tell(self, event: JobEvent) -> JobEvent:
        """The event as it is stored, but for values that can't be decoded: it says why not."""
        if isinstance(event, Enqueued):
            missing = await self._missing(event.payload, event.codec, event.payload_key)
            event = event if missing is None else replace(event, payload=missing)
        if isinstance(event, Completed | Adopted):
            missing = await self._missing(event.result, event.result_codec, event.result_key)
            event = event if missing is None else replace(event, result=missing)
        return event

    async def _missing(self, inline: Raw, codec: str, key: str | None) -> Undecodable | None:
        value = await self.result(inline, codec, key)
        return value.told() if isinstance(value, Undecodable) else None

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
        try:
            data = await self._backend.fetch(key)
        except ObjectNotFound:
            # The store is sure. Trouble with it is no answer, and is raised.
            return Undecodable(codec, size_in(key), f"the object {key!r} that holds it is gone")
        except Corrupt as error:
            return Undecodable(codec, size_in(key), str(error))
        return self._codecs.decode(data, codec)
