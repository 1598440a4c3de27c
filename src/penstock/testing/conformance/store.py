"""What an object store must do to carry a queue, as tests.

Subclass it, give it your store, run pytest (with pytest-asyncio):

    class TestMyStore(StoreConformance):
        @pytest.fixture
        async def store(self) -> AsyncIterator[ObjectStore]:
            store = MyStore(…)
            yield store
            await store.close()

Each test works under a new prefix of `conformance/` and leaves its objects there, so give it
a bucket that you can throw away. Some 1,500 requests, most of them for `many_keys`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from urllib.parse import urlsplit

import pytest

from penstock.errors import ObjectNotFound, PreconditionFailed, PutUnknown
from penstock.ports.store import Create, ObjectStore, Overwrite, Replace, Written
from penstock.runtime.clock import SystemClock
from penstock.runtime.identity import random_id

RACERS = 32
COUNTERS = 8
COUNTS_EACH = 4
OVERWRITES = 20
LARGE_BYTES = 5 * 1024 * 1024
REPLACES_MAX = 1000
PUTS_AT_ONCE = 32


@pytest.mark.asyncio
class StoreConformance:
    """The promises of `penstock.ports.store.ObjectStore`, one test each."""

    # How far the store's clock may be from this machine's.
    clock_tolerance_seconds: float = 60.0
    # More than any server lists at once; 0 leaves the test out where every put costs.
    many_keys: int = 1100
    # False for a server that keeps folders: it may sort `a/b` before `a-b`, and find that all of
    # `a/…` comes before `a`. penstock's own keys never depend on either.
    flat: bool = True

    @pytest.fixture
    async def store(self) -> ObjectStore:
        raise NotImplementedError("a subclass provides the store as a fixture")

    async def test_what_was_put_can_be_got(self, store: ObjectStore) -> None:
        key = _area("object")
        written = await store.put(key, b"content", Create())
        stored = await store.get(key)
        assert stored.data == b"content"
        assert stored.version == written.version, "a put and a get tell different versions"

    async def test_getting_nothing_raises(self, store: ObjectStore) -> None:
        with pytest.raises(ObjectNotFound):
            await store.get(_area("nothing"))

    async def test_a_second_create_is_refused(self, store: ObjectStore) -> None:
        key = _area("object")
        await store.put(key, b"first", Create())
        with pytest.raises(PreconditionFailed):
            await store.put(key, b"second", Create())
        assert (await store.get(key)).data == b"first", "a refused create changed the object"

    async def test_a_second_create_is_refused_even_with_the_same_content(
        self, store: ObjectStore
    ) -> None:
        key = _area("object")
        await store.put(key, b"same", Create())
        with pytest.raises(PreconditionFailed):
            await store.put(key, b"same", Create())

    async def test_what_was_deleted_can_be_created_again(self, store: ObjectStore) -> None:
        key = _area("object")
        await store.put(key, b"first", Create())
        await store.delete(key)
        await store.put(key, b"second", Create())
        assert (await store.get(key)).data == b"second"

    async def test_replacing_the_present_version_works(self, store: ObjectStore) -> None:
        key = _area("object")
        first = await store.put(key, b"first", Create())
        second = await store.put(key, b"second", Replace(first.version))
        await store.put(key, b"third", Replace(second.version))
        assert (await store.get(key)).data == b"third"

    async def test_a_version_that_was_got_can_be_replaced(self, store: ObjectStore) -> None:
        key = _area("object")
        await store.put(key, b"first", Create())
        await store.put(key, b"second", Replace((await store.get(key)).version))
        assert (await store.get(key)).data == b"second"

    async def test_replacing_a_stale_version_is_refused(self, store: ObjectStore) -> None:
        key = _area("object")
        first = await store.put(key, b"first", Create())
        await store.put(key, b"second", Replace(first.version))
        with pytest.raises(PreconditionFailed):
            await store.put(key, b"third", Replace(first.version))
        assert (await store.get(key)).data == b"second", "a refused replace changed the object"

    async def test_replacing_nothing_is_refused(self, store: ObjectStore) -> None:
        real = await store.put(_area("object"), b"somewhere else", Create())
        key = _area("nothing")
        with pytest.raises(PreconditionFailed):
            await store.put(key, b"content", Replace(real.version))
        with pytest.raises(ObjectNotFound):
            await store.get(key)

    async def test_replacing_what_was_deleted_is_refused(self, store: ObjectStore) -> None:
        key = _area("object")
        written = await store.put(key, b"content", Create())
        await store.delete(key)
        with pytest.raises(PreconditionFailed):
            await store.put(key, b"again", Replace(written.version))

    async def test_an_overwrite_asks_nothing(self, store: ObjectStore) -> None:
        key = _area("object")
        await store.put(key, b"first", Overwrite())
        await store.put(key, b"second", Overwrite())
        assert (await store.get(key)).data == b"second"

    async def test_an_overwrite_makes_earlier_versions_stale(self, store: ObjectStore) -> None:
        key = _area("object")
        first = await store.put(key, b"first", Create())
        await store.put(key, b"second", Overwrite())
        with pytest.raises(PreconditionFailed):
            await store.put(key, b"third", Replace(first.version))

    async def test_of_many_creators_one_wins(self, store: ObjectStore) -> None:
        key = _area("object")
        contents = [f"racer {number}".encode() for number in range(RACERS)]
        outcomes = await asyncio.gather(
            *(store.put(key, content, Create()) for content in contents), return_exceptions=True
        )
        stored = (await store.get(key)).data
        winners = [c for c, o in zip(contents, outcomes, strict=True) if isinstance(o, Written)]
        unsure = [c for c, o in zip(contents, outcomes, strict=True) if isinstance(o, PutUnknown)]
        assert len(winners) <= 1, f"{len(winners)} creators were told that they won"
        assert stored in (winners or unsure), "the stored content is not the winner's"
        assert _unexpected(outcomes) == []

    async def test_concurrent_replaces_lose_no_update(self, store: ObjectStore) -> None:
        key = _area("counter")
        await store.put(key, b"[]", Create())
        marks = [
            [f"{counter}-{number}" for number in range(COUNTS_EACH)] for counter in range(COUNTERS)
        ]
        await asyncio.gather(*(_append_each(store, key, own) for own in marks))
        final = json.loads((await store.get(key)).data)
        assert sorted(final) == sorted(mark for own in marks for mark in own)

    async def test_a_reader_never_sees_a_part(self, store: ObjectStore) -> None:
        key = _area("object")
        await store.put(key, bytes(100_000), Create())

        async def write() -> None:
            for number in range(OVERWRITES):
                await store.put(key, bytes([number]) * (100_000 + number), Overwrite())

        async def read() -> None:
            for _ in range(OVERWRITES):
                data = (await store.get(key)).data
                assert data == data[:1] * (100_000 + data[0]), "a mixture of two contents"

        await asyncio.gather(write(), read(), read())

    async def test_deleting_is_idempotent(self, store: ObjectStore) -> None:
        key = _area("object")
        await store.put(key, b"content", Create())
        await store.delete(key)
        await store.delete(key)
        with pytest.raises(ObjectNotFound):
            await store.get(key)

    async def test_deleting_what_never_was_is_fine(self, store: ObjectStore) -> None:
        key = _area("nothing")
        await store.delete(key)
        with pytest.raises(ObjectNotFound):
            await store.get(key)

    async def test_a_listing_has_keys_sizes_and_times(self, store: ObjectStore) -> None:
        area = _area()
        await store.put(f"{area}/one", b"1", Create())
        await store.put(f"{area}/three", b"333", Create())
        entries = [entry async for entry in store.list(f"{area}/")]
        assert [(e.key, e.size_bytes) for e in entries] == [
            (f"{area}/one", 1),
            (f"{area}/three", 3),
        ]
        now = SystemClock().now()
        assert all(abs(e.modified_at - now) < self.clock_tolerance_seconds for e in entries)

    async def test_a_listing_is_in_byte_order(self, store: ObjectStore) -> None:
        names = [
            "b",
            "B",
            "a",
            "Z",
            "0",
            "9",
            "10",
            "x=1",
            "x=2",
            "deep/er/z",
            "deep/er/a",
            "deep/1",
        ]
        await self._expect_listing(store, names)

    async def test_a_listing_is_in_byte_order_around_slashes(self, store: ObjectStore) -> None:
        if not self.flat:
            pytest.skip("this server keeps folders")
        await self._expect_listing(store, ["a/b", "a-b", "a.b", "a0", "ab", "a=b", "a/a/a"])

    async def test_a_listing_starts_after(self, store: ObjectStore) -> None:
        area = _area()
        await _put_all(store, [f"{area}/{name}" for name in ("a", "b", "c/1", "c/2", "d")])
        for start, rest in {
            "a": ["b", "c/1", "c/2", "d"],
            "aa": ["b", "c/1", "c/2", "d"],
            "c/1": ["c/2", "d"],
            "d": [],
            **({"c": ["c/1", "c/2", "d"]} if self.flat else {}),
        }.items():
            listed = await _keys(store, f"{area}/", f"{area}/{start}")
            assert listed == [f"{area}/{name}" for name in rest], f"after {start!r}"

    async def test_a_listing_keeps_to_its_prefix(self, store: ObjectStore) -> None:
        area = _area()
        names = ("log/1", "log/10", "log/2", "log2/1", "lo", "other/log/1")
        await _put_all(store, [f"{area}/{name}" for name in names])
        for prefix, under in {
            "log/": ["log/1", "log/10", "log/2"],
            "log/1": ["log/1", "log/10"],
            "log": ["log/1", "log/10", "log/2", "log2/1"],
            "none/": [],
        }.items():
            listed = await _keys(store, f"{area}/{prefix}")
            assert listed == [f"{area}/{name}" for name in under], f"under {prefix!r}"

    async def test_what_was_deleted_is_not_listed(self, store: ObjectStore) -> None:
        area = _area()
        await _put_all(store, [f"{area}/a", f"{area}/b"])
        await store.delete(f"{area}/a")
        assert await _keys(store, f"{area}/") == [f"{area}/b"]

    async def test_a_long_listing_is_complete(self, store: ObjectStore) -> None:
        if not self.many_keys:
            pytest.skip("many_keys is 0")
        area = _area()
        keys = [f"{area}/{number:020d}" for number in range(self.many_keys)]
        await _put_all(store, keys)
        assert await _keys(store, f"{area}/") == keys
        assert await _keys(store, f"{area}/", keys[5]) == keys[6:]

    async def test_any_bytes_can_be_stored(self, store: ObjectStore) -> None:
        for content in (b"", bytes(range(256)), b"\r\n\x00\xff", "žluťoučký".encode()):
            key = _area("object")
            await store.put(key, content, Create())
            assert (await store.get(key)).data == content

    async def test_a_large_object_can_be_stored(self, store: ObjectStore) -> None:
        key = _area("object")
        content = bytes(range(256)) * (LARGE_BYTES // 256)
        written = await store.put(key, content, Create())
        assert (await store.get(key)).data == content
        with pytest.raises(PreconditionFailed):
            await store.put(key, content, Create())
        await store.put(key, content[1:], Replace(written.version))
        assert (await store.get(key)).data == content[1:]

    async def test_keys_may_have_all_allowed_characters(self, store: ObjectStore) -> None:
        area = _area()
        keys = [
            f"{area}/ABCDEFGHIJKLMNOPQRSTUVWXYZ",
            f"{area}/abcdefghijklmnopqrstuvwxyz",
            f"{area}/0123456789",
            f"{area}/a.b_c=d-e",
            f"{area}/minute=29012345/.hidden",
            f"{area}/{'n' * 200}",
        ]
        await _put_all(store, keys)
        for key in keys:
            assert (await store.get(key)).data == key.encode()
        assert sorted(await _keys(store, f"{area}/")) == sorted(keys)

    async def test_versions_of_different_contents_differ(self, store: ObjectStore) -> None:
        key = _area("object")
        versions = {(await store.put(key, bytes([n]), Overwrite())).version for n in range(8)}
        assert len(versions) == 8

    async def test_modification_times_are_near_the_present(self, store: ObjectStore) -> None:
        key = _area("object")
        written = await store.put(key, b"content", Create())
        now = SystemClock().now()
        stored = await store.get(key)
        assert abs(stored.modified_at - now) < self.clock_tolerance_seconds
        assert written.modified_at is None or abs(written.modified_at - stored.modified_at) < 2

    async def test_the_name_shows_no_credentials(self, store: ObjectStore) -> None:
        assert store.name, "messages need a name for the store"
        address = urlsplit(store.name)
        assert address.password is None
        assert address.query == ""

    async def test_closing_twice_is_fine(self, store: ObjectStore) -> None:
        await store.put(_area("object"), b"content", Create())
        await store.close()
        await store.close()
        assert store.name, "what is closed still has a name"

    async def _expect_listing(self, store: ObjectStore, names: list[str]) -> None:
        area = _area()
        await _put_all(store, [f"{area}/{name}" for name in names])
        expected = sorted((f"{area}/{name}" for name in names), key=str.encode)
        assert await _keys(store, f"{area}/") == expected


def _area(name: str = "") -> str:
    """A prefix or key that no other test or run uses."""
    return f"conformance/{random_id()}" + (f"/{name}" if name else "")


async def _put_all(store: ObjectStore, keys: Iterable[str]) -> None:
    turns = asyncio.Semaphore(PUTS_AT_ONCE)

    async def put(key: str) -> None:
        async with turns:
            await store.put(key, key.encode(), Create())

    await asyncio.gather(*(put(key) for key in keys))


async def _keys(store: ObjectStore, prefix: str, start_after: str = "") -> list[str]:
    return [entry.key async for entry in store.list(prefix, start_after)]


async def _append_each(store: ObjectStore, key: str, marks: Iterable[str]) -> None:
    """Appends to a list by compare-and-set; each mark is unique, so unknowns can be resolved."""
    for mark in marks:
        for _ in range(REPLACES_MAX):
            stored = await store.get(key)
            content = json.loads(stored.data)
            if mark in content:
                break
            try:
                await store.put(key, json.dumps([*content, mark]).encode(), Replace(stored.version))
                break
            except (PreconditionFailed, PutUnknown):
                continue
        else:
            pytest.fail(f"{mark} was refused {REPLACES_MAX} times")


def _unexpected(outcomes: Iterable[object]) -> list[object]:
    expected = (Written, PreconditionFailed, PutUnknown)
    return [outcome for outcome in outcomes if not isinstance(outcome, expected)]
