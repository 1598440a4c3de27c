"""The conformance suite fails a store that breaks a promise, in the test that names it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

from penstock.errors import ObjectNotFound, PreconditionFailed
from penstock.ports.store import (
    Create,
    Entry,
    ObjectStore,
    Overwrite,
    PutMode,
    Replace,
    StoredObject,
    Written,
)
from penstock.stores.layers.layer import Layer
from penstock.stores.memory import MemoryStore
from penstock.testing.conformance.store import StoreConformance

suite = StoreConformance()


class IgnoresCreate(Layer):
    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        return await super().put(key, data, Overwrite() if isinstance(mode, Create) else mode)


class IgnoresReplace(Layer):
    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        return await super().put(key, data, Overwrite() if isinstance(mode, Replace) else mode)


class LooksBeforeItCreates(Layer):
    """Checks, then writes: right for one client, wrong for two."""

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        if not isinstance(mode, Create):
            return await super().put(key, data, mode)
        try:
            await self.get(key)
        except ObjectNotFound:
            await asyncio.sleep(0)
            return await super().put(key, data, Overwrite())
        raise PreconditionFailed(self.name, key)


class LooksBeforeItReplaces(Layer):
    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        if not isinstance(mode, Replace):
            return await super().put(key, data, mode)
        try:
            present = (await self.get(key)).version
        except ObjectNotFound:
            present = ""
        if present != mode.version:
            raise PreconditionFailed(self.name, key)
        await asyncio.sleep(0)
        return await super().put(key, data, Overwrite())


class CreatesIfTheSame(Layer):
    """Takes an equal content for its own repetition."""

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        try:
            return await super().put(key, data, mode)
        except PreconditionFailed:
            stored = await self.get(key)
            if stored.data != data:
                raise
            return Written(stored.version)


class ReplacesNothing(Layer):
    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        try:
            return await super().put(key, data, mode)
        except PreconditionFailed:
            if not isinstance(mode, Replace):
                raise
            return await super().put(key, data, Create())


class ReadsStale(Layer):
    """Reads from a copy that is one put behind."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._before: dict[str, StoredObject] = {}

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        try:
            self._before[key] = await super().get(key)
        except ObjectNotFound:
            self._before.pop(key, None)
        return await super().put(key, data, mode)

    async def get(self, key: str) -> StoredObject:
        return self._before.get(key) or await super().get(key)


class WritesInPieces(Layer):
    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        if isinstance(mode, Overwrite):
            await super().put(key, data[: len(data) // 2], mode)
            await asyncio.sleep(0)
        return await super().put(key, data, mode)


class RaisesOnDeletingNothing(Layer):
    async def delete(self, key: str) -> None:
        await self.get(key)
        await super().delete(key)


class DeletesNothing(Layer):
    async def delete(self, key: str) -> None:
        return None


class ListsBackwards(Layer):
    async def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        for entry in reversed([entry async for entry in super().list(prefix, start_after)]):
            yield entry


class ListsByFolder(Layer):
    """Sorts `a/b` before `a-b`, as a walk through folders does."""

    async def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        entries = [entry async for entry in super().list(prefix, start_after)]
        for entry in sorted(entries, key=lambda entry: entry.key.split("/")):
            yield entry


class ListsOnePage(Layer):
    async def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        left = 1000
        async for entry in super().list(prefix, start_after):
            if left == 0:
                return
            left -= 1
            yield entry


class ListsFromTheStart(Layer):
    def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        return super().list(prefix)


class ListsTheStartToo(Layer):
    async def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        async for entry in super().list(prefix):
            if entry.key >= start_after:
                yield entry


class ListsWholeSegments(Layer):
    """Takes a prefix for a folder, as some clients do."""

    async def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        folder = prefix if prefix.endswith("/") else f"{prefix}/"
        async for entry in super().list(prefix, start_after):
            if entry.key.startswith(folder):
                yield entry


class ListsWithoutSizes(Layer):
    async def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        async for entry in super().list(prefix, start_after):
            yield replace(entry, size_bytes=0)


class CallsNothingEmpty(Layer):
    async def get(self, key: str) -> StoredObject:
        try:
            return await super().get(key)
        except ObjectNotFound:
            return StoredObject(b"", "0", 0.0)


class TakesBytesForText(Layer):
    async def get(self, key: str) -> StoredObject:
        stored = await super().get(key)
        return replace(stored, data=stored.data.decode(errors="replace").encode())


class CutsAtAMebibyte(Layer):
    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        return await super().put(key, data[: 1024 * 1024], mode)


class FoldsCase(Layer):
    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        return await super().put(key.lower(), data, mode)


class NumbersBySize(Layer):
    """Gives the size as the version."""

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        await super().put(key, data, Overwrite())
        return Written(str(len(data)))


class TellsItsStart(Layer):
    async def get(self, key: str) -> StoredObject:
        return replace(await super().get(key), modified_at=0.0)


class ShowsItsSecret(Layer):
    @property
    def name(self) -> str:
        return "s3://user:secret@bucket"


class ClosesOnce(Layer):
    closed = False

    async def close(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


Promise = Callable[[ObjectStore], Awaitable[None]]

BROKEN: list[tuple[type[Layer], Promise]] = [
    (IgnoresCreate, suite.test_a_second_create_is_refused),
    (IgnoresCreate, suite.test_of_many_creators_one_wins),
    (LooksBeforeItCreates, suite.test_of_many_creators_one_wins),
    (CreatesIfTheSame, suite.test_a_second_create_is_refused_even_with_the_same_content),
    (IgnoresReplace, suite.test_replacing_a_stale_version_is_refused),
    (IgnoresReplace, suite.test_an_overwrite_makes_earlier_versions_stale),
    (IgnoresReplace, suite.test_replacing_what_was_deleted_is_refused),
    (LooksBeforeItReplaces, suite.test_concurrent_replaces_lose_no_update),
    (ReplacesNothing, suite.test_replacing_nothing_is_refused),
    (ReadsStale, suite.test_an_overwrite_asks_nothing),
    (ReadsStale, suite.test_replacing_the_present_version_works),
    (ReadsStale, suite.test_a_version_that_was_got_can_be_replaced),
    (WritesInPieces, suite.test_a_reader_never_sees_a_part),
    (RaisesOnDeletingNothing, suite.test_deleting_is_idempotent),
    (RaisesOnDeletingNothing, suite.test_deleting_what_never_was_is_fine),
    (DeletesNothing, suite.test_deleting_is_idempotent),
    (DeletesNothing, suite.test_what_was_deleted_can_be_created_again),
    (DeletesNothing, suite.test_what_was_deleted_is_not_listed),
    (ListsBackwards, suite.test_a_listing_is_in_byte_order),
    (ListsByFolder, suite.test_a_listing_is_in_byte_order_around_slashes),
    (ListsOnePage, suite.test_a_long_listing_is_complete),
    (ListsFromTheStart, suite.test_a_listing_starts_after),
    (ListsTheStartToo, suite.test_a_listing_starts_after),
    (ListsWholeSegments, suite.test_a_listing_keeps_to_its_prefix),
    (ListsWithoutSizes, suite.test_a_listing_has_keys_sizes_and_times),
    (CallsNothingEmpty, suite.test_getting_nothing_raises),
    (CallsNothingEmpty, suite.test_deleting_what_never_was_is_fine),
    (TakesBytesForText, suite.test_any_bytes_can_be_stored),
    (CutsAtAMebibyte, suite.test_a_large_object_can_be_stored),
    (FoldsCase, suite.test_keys_may_have_all_allowed_characters),
    (NumbersBySize, suite.test_versions_of_different_contents_differ),
    (NumbersBySize, suite.test_what_was_put_can_be_got),
    (TellsItsStart, suite.test_modification_times_are_near_the_present),
    (ShowsItsSecret, suite.test_the_name_shows_no_credentials),
    (ClosesOnce, suite.test_closing_twice_is_fine),
]


@pytest.mark.parametrize(
    ("broken", "promise"),
    BROKEN,
    ids=[f"{broken.__name__}-{promise.__name__}" for broken, promise in BROKEN],
)
async def test_a_broken_store_fails_the_promise_it_breaks(
    broken: type[Layer], promise: Promise
) -> None:
    await promise(MemoryStore())
    with pytest.raises((Exception, pytest.fail.Exception)):
        await promise(broken(MemoryStore()))


def test_every_promise_has_a_store_that_breaks_it() -> None:
    promises = {name for name in dir(StoreConformance) if name.startswith("test_")}
    broken = {promise.__name__ for _, promise in BROKEN}
    assert promises == broken
