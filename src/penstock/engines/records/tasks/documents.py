"""Objects that are replaced under the condition that nobody else did, one at a time.

A put whose fate is unknown is frozen: the same bytes go out under the same condition until the
store has said yes or no. A no may be the echo of one's own yes, so what is stored is read: every
put leaves its id there, among those of the latest few. Where one's own is not among them, and
neither is the put that one's own followed, more have come since than are remembered: then nobody
knows, and nobody guesses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from penstock.engines.bad_reads import again_if_bad
from penstock.errors import (
    ObjectNotFound,
    OutcomeUnknown,
    PreconditionFailed,
    PutUnknown,
    StoreError,
    StoreUnavailable,
)
from penstock.ports.store import Create, ObjectStore, PutMode, Replace, Written
from penstock.runtime.services import Services

Document = TypeVar("Document", bound=Any)
Subject = TypeVar("Subject")
Result = TypeVar("Result")

NONCES_KEPT: Final = 8
NONCE_CHARACTERS: Final = 16
PARALLEL_REQUESTS: Final = 32
_RETRY_SECONDS: Final = 0.05
_RETRY_SECONDS_MAX: Final = 2.0
_REFUSALS_MAX: Final = 6
"""How often in a row a put that was certainly not applied is sent again."""


def _nothing(later: Any, earlier: Any) -> bool | None:
    return None


class Kept(Struct, Generic[Document], frozen=True):
    """A document as it was found or put."""

    document: Document
    version: str | None
    """None: it was put, and somebody has replaced it since."""
    modified_at: float


class Documents(Generic[Document]):
    def __init__(
        self,
        store: ObjectStore,
        services: Services,
        encode: Callable[[Document], bytes],
        decode: Callable[[str, bytes], Document],
        shows: Callable[[Document, Document], bool | None] = _nothing,
    ) -> None:
        """`shows` says whether a later document shows that one was put before, if it can."""
        self._store = store
        self._services = services
        self._encode = encode
        self._decode = decode
        self._shows = shows

    async def read(self, key: str) -> Kept[Document] | None:
        return await again_if_bad(lambda: self._read(key))

    async def put(
        self, key: str, before: Kept[Document] | None, after: Document
    ) -> Kept[Document] | None:
        """What stands now; None if somebody else was faster and nothing was written."""
        nonce = self._services.new_secret()[:NONCE_CHARACTERS]
        earlier = () if before is None else before.document.nonces
        document = msgspec.structs.replace(after, nonces=(*earlier[1 - NONCES_KEPT :], nonce))
        mode: PutMode = Create()
        if before is not None:
            assert before.version is not None, "what was replaced since has to be read again"
            mode = Replace(before.version)
        written = await self._put_frozen(key, self._encode(document), mode)
        if written is not None:
            modified_at = written.modified_at or self._services.clock.now()
            return Kept(document, written.version, modified_at)
        return await self._refused(key, document, earlier)

    async def _refused(
        self, key: str, document: Document, earlier: tuple[str, ...]
    ) -> Kept[Document] | None:
        """The document, if it was put and the refusal is only the echo."""
        try:
            found = await self.read(key)
        except StoreError as error:
            raise OutcomeUnknown(f"a put of {key}") from error
        if found is None:
            return None
        if found.document.nonces[-1:] == document.nonces[-1:]:
            return found
        if self._was_put(key, document, earlier, found.document):
            return Kept(document, None, found.modified_at)
        return None

    def _was_put(
        self, key: str, document: Document, earlier: tuple[str, ...], found: Document
    ) -> bool:
        if document.nonces[-1] in found.nonces:
            return True
        if len(found.nonces) < NONCES_KEPT or set(earlier[-1:]) & set(found.nonces):
            # All that came since what it was to follow is there, and it is not.
            return False
        shown = self._shows(found, document)
        if shown is None:
            raise OutcomeUnknown(f"a put of {key}")
        return shown

    async def _read(self, key: str) -> Kept[Document] | None:
        try:
            stored = await self._store.get(key)
        except ObjectNotFound:
            return None
        document = self._decode(key, stored.data)
        return Kept(document, stored.version, stored.modified_at)

    async def _put_frozen(self, key: str, data: bytes, mode: PutMode) -> Written | None:
        """Puts the same bytes until they are applied, or refused (None)."""
        backoff = self._services.backoff(_RETRY_SECONDS, _RETRY_SECONDS_MAX)
        was_unknown, refusals = False, 0
        while True:
            try:
                return await self._store.put(key, data, mode)
            except PreconditionFailed:
                return None
            except PutUnknown:
                was_unknown = True
            except StoreUnavailable:
                refusals += 1
                if not was_unknown and refusals == _REFUSALS_MAX:
                    raise
            except StoreError:
                if not was_unknown:
                    raise
            await self._services.clock.sleep(backoff.next_seconds())


async def in_parallel(
    act: Callable[[Subject], Awaitable[Result]],
    items: Iterable[Subject],
    at_once: int = PARALLEL_REQUESTS,
) -> list[Result]:
    """The results of an action on all items, in order, not too many of them at once.

    The first error of any is raised, and what has not ended is cancelled.
    """
    slots = asyncio.Semaphore(at_once)

    async def one(item: Subject) -> Result:
        async with slots:
            return await act(item)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in items]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
