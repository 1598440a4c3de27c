"""The layers around stores."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable

import pytest

from penstock.errors import ObjectNotFound, PutUnknown, StoreDenied, StoreUnavailable
from penstock.ports.store import (
    Create,
    Entry,
    ObjectStore,
    ObjectVersion,
    Overwrite,
    Replace,
    StoredObject,
    Versioned,
    Watchable,
)
from penstock.runtime.backoff import Backoff
from penstock.stores.layers.counting import Counting, Requests
from penstock.stores.layers.layer import Layer
from penstock.stores.layers.prefixed import Prefixed
from penstock.stores.layers.retrying import Retrying, StoreRetryPolicy
from penstock.stores.local import LocalStore
from penstock.stores.memory import MemoryStore
from penstock.testing.faults import Fault
from penstock.testing.faulty_store import FaultyStore
from tests.stores.clocks import JumpingClock


class Remembering(MemoryStore):
    """A store that says that it keeps versions."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def versions(self, key: str) -> AsyncIterator[ObjectVersion]:
        yield ObjectVersion(key, "v1", 1.0, latest=True, deleted=False)

    async def get_version(self, key: str, version_id: str) -> StoredObject:
        self.asked.append(key)
        return StoredObject(b"old", version_id, 1.0)


def layers_over(store: ObjectStore) -> list[Layer]:
    clock = JumpingClock()
    return [
        Prefixed(store, "queues"),
        Counting(store),
        Retrying(store, clock),
        FaultyStore(store, clock, random.Random(1)),
        Counting(Retrying(Prefixed(store, "queues"), clock)),
    ]


async def test_a_layer_can_watch_if_and_only_if_the_store_can(tmp_path: str) -> None:
    assert all(isinstance(layer, Watchable) for layer in layers_over(MemoryStore()))
    assert not any(isinstance(layer, Watchable) for layer in layers_over(LocalStore(tmp_path)))


async def test_a_layer_has_versions_if_and_only_if_the_store_has() -> None:
    assert all(isinstance(layer, Versioned) for layer in layers_over(Remembering()))
    assert not any(isinstance(layer, Versioned) for layer in layers_over(MemoryStore()))


async def test_prefixed_puts_everything_under_its_prefix() -> None:
    inner = MemoryStore("memory")
    store = Prefixed(inner, "/queues/mail/")
    await store.put("log/1", b"content", Create())
    assert [entry.key async for entry in inner.list("")] == ["queues/mail/log/1"]
    assert store.name == "memory/queues/mail"


async def test_prefixed_sees_nothing_beside_its_prefix() -> None:
    inner = MemoryStore()
    await inner.put("queues/mail2/log/1", b"content", Create())
    await inner.put("other", b"content", Create())
    store = Prefixed(inner, "queues/mail")
    assert [entry.key async for entry in store.list("")] == []
    with pytest.raises(ObjectNotFound):
        await store.get("log/1")


async def test_prefixed_watches_under_its_prefix() -> None:
    inner = MemoryStore()
    watch = Prefixed(inner, "queues").watch("log/")
    change = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    await inner.put("log/1", b"", Create())
    await asyncio.sleep(0)
    assert not change.done()
    await inner.put("queues/log/1", b"", Create())
    await asyncio.wait_for(change, 10)
    assert change.done()


async def test_prefixed_translates_the_keys_of_versions() -> None:
    inner = Remembering()
    store = Prefixed(inner, "queues")
    assert [version.key async for version in store.versions("job")] == ["job"]
    await store.get_version("job", "v1")
    assert inner.asked == ["queues/job"]


async def test_counting_counts_requests_and_bytes() -> None:
    store = Counting(MemoryStore())
    written = await store.put("a", b"12345", Create())
    await store.put("a", b"123", Replace(written.version))
    await store.get("a")
    await store.delete("a")
    with pytest.raises(ObjectNotFound):
        await store.get("a")
    assert [entry async for entry in store.list("")] == []
    assert store.requests == Requests(puts=2, gets=2, lists=1, deletes=1, put_bytes=8, got_bytes=3)
    assert store.requests.total == 6


async def test_counting_counts_a_listing_by_its_pages() -> None:
    store = Counting(MemoryStore())
    for number in range(2001):
        await store.put(f"key/{number:05d}", b"", Create())
    before = store.requests
    assert len([entry async for entry in store.list("key/")]) == 2001
    assert store.requests.since(before) == Requests(lists=3)


async def test_counting_counts_exactly_full_pages_once() -> None:
    store = Counting(MemoryStore())
    for number in range(1000):
        await store.put(f"key/{number:05d}", b"", Create())
    assert len([entry async for entry in store.list("key/")]) == 1000
    assert store.requests.lists == 1


class Trouble:
    """A faulty store behind a retrying one, and the clock they share."""

    def __init__(self, policy: StoreRetryPolicy | None = None) -> None:
        self.clock = JumpingClock()
        self.inner = MemoryStore()
        self.faulty = FaultyStore(self.inner, self.clock, random.Random(1))
        self.store = Retrying(self.faulty, self.clock, policy, luck=lambda: 0.5)


async def test_reads_and_deletes_are_tried_again() -> None:
    trouble = Trouble()
    await trouble.inner.put("key", b"content", Create())
    trouble.faulty.fail_next("get", Fault.ERROR, times=3)
    trouble.faulty.fail_next("list", Fault.ERROR, times=2)
    trouble.faulty.fail_next("delete", Fault.LOST_ANSWER)
    assert (await trouble.store.get("key")).data == b"content"
    assert [entry.key async for entry in trouble.store.list("")] == ["key"]
    await trouble.store.delete("key")
    assert len(trouble.faulty.injected) == 6


async def test_waits_double_up_to_a_limit() -> None:
    trouble = Trouble(StoreRetryPolicy(attempts_max=6, wait_seconds_max=0.3, jitter=0))
    await trouble.inner.put("key", b"content", Create())
    trouble.faulty.fail_next("get", Fault.ERROR, times=5)
    await trouble.store.get("key")
    assert trouble.clock.slept == pytest.approx([0.05, 0.1, 0.2, 0.3, 0.3])


async def test_it_gives_up_after_so_many_attempts() -> None:
    trouble = Trouble(StoreRetryPolicy(attempts_max=3))
    trouble.faulty.fail_next("get", Fault.ERROR, times=10)
    with pytest.raises(StoreUnavailable):
        await trouble.store.get("key")
    assert len(trouble.faulty.injected) == 3


async def test_it_gives_up_after_so_many_seconds() -> None:
    trouble = Trouble(StoreRetryPolicy(attempts_max=1000, seconds_max=10))
    trouble.faulty.fail_next("get", Fault.ERROR, times=1000)
    started = trouble.clock.seconds
    with pytest.raises(StoreUnavailable):
        await trouble.store.get("key")
    assert 5 < trouble.clock.seconds - started <= 10


@pytest.mark.parametrize("mode", [Create(), Replace("1")])
@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.LOST_REQUEST, Fault.LOST_ANSWER])
async def test_a_conditional_put_is_never_tried_again(mode: Create | Replace, fault: Fault) -> None:
    trouble = Trouble()
    if isinstance(mode, Replace):
        await trouble.inner.put("key", b"before", Create())
    trouble.faulty.fail_next("put", fault)
    with pytest.raises((PutUnknown, StoreUnavailable)):
        await trouble.store.put("key", b"content", mode)
    assert len(trouble.faulty.injected) == 1
    assert trouble.clock.slept == []


async def test_an_overwrite_is_tried_again_after_an_unknown() -> None:
    trouble = Trouble()
    trouble.faulty.fail_next("put", Fault.LOST_REQUEST)
    trouble.faulty.fail_next("put", Fault.LOST_ANSWER)
    await trouble.store.put("key", b"content", Overwrite())
    assert (await trouble.inner.get("key")).data == b"content"


async def test_what_waiting_can_not_help_is_not_tried_again() -> None:
    trouble = Trouble()
    trouble.faulty.fail_next("get", Fault.DENIED)
    with pytest.raises(StoreDenied):
        await trouble.store.get("key")
    with pytest.raises(ObjectNotFound):
        await trouble.store.get("key")
    assert trouble.clock.slept == []


async def test_a_listing_that_breaks_goes_on_where_it_was() -> None:
    clock = JumpingClock()
    inner = MemoryStore()
    for number in range(10):
        await inner.put(f"key/{number}", b"", Create())
    store = Retrying(BreakingListing(inner, after=4), clock)
    listed = [entry.key async for entry in store.list("key/")]
    assert listed == [f"key/{number}" for number in range(10)]
    assert len(clock.slept) == 2


class BreakingListing(Layer):
    """Every listing fails after so many entries."""

    def __init__(self, store: ObjectStore, after: int) -> None:
        super().__init__(store)
        self._after = after

    async def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        left = self._after
        async for entry in super().list(prefix, start_after):
            if left == 0:
                raise StoreUnavailable(self.name, prefix, "the connection broke")
            left -= 1
            yield entry


def test_backoff_grows_to_its_limit_and_starts_again() -> None:
    backoff = Backoff(1, 3, 10, 0, luck=lambda: 0.9)
    assert [backoff.next_seconds() for _ in range(5)] == [1, 3, 9, 10, 10]
    backoff.reset()
    assert backoff.next_seconds() == 1


def test_backoff_spreads_by_its_jitter() -> None:
    lowest = Backoff(8, 2, 8, 0.25, luck=lambda: 0.0)
    highest = Backoff(8, 2, 8, 0.25, luck=lambda: 1.0)
    assert lowest.next_seconds() == 6
    assert highest.next_seconds() == 10


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Backoff(initial_seconds=0),
        lambda: Backoff(initial_seconds=9, max_seconds=1),
        lambda: Backoff(multiplier=0.5),
        lambda: Backoff(jitter=1.5),
    ],
    ids=["no-wait", "shrinking-limit", "shrinking", "wild"],
)
def test_backoff_refuses_what_would_not_grow(wrong: Callable[[], Backoff]) -> None:
    with pytest.raises(ValueError, match="backoff"):
        wrong()
