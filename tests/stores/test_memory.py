"""The store in memory, beyond what every store does."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.errors import PreconditionFailed
from penstock.ports.store import Create, Overwrite, Replace, Watchable
from penstock.stores.memory import MemoryStore


async def test_times_come_from_the_given_clock() -> None:
    store = MemoryStore(now=lambda: 1234.5)
    written = await store.put("key", b"content", Create())
    assert written.modified_at == 1234.5
    assert (await store.get("key")).modified_at == 1234.5


async def test_the_same_content_written_again_is_a_new_version() -> None:
    store = MemoryStore()
    first = await store.put("key", b"same", Create())
    await store.put("key", b"same", Overwrite())
    with pytest.raises(PreconditionFailed):
        await store.put("key", b"other", Replace(first.version))


async def test_a_buffer_that_changes_later_does_not_change_the_object() -> None:
    store = MemoryStore()
    buffer = bytearray(b"before")
    await store.put("key", buffer, Create())  # type: ignore[arg-type]  # which people do
    buffer[:] = b"after!"
    assert (await store.get("key")).data == b"before"


def test_event_loops_in_several_threads_may_share_it() -> None:
    store = MemoryStore()

    async def create_all() -> int:
        won = 0
        for number in range(200):
            try:
                await store.put(f"key/{number}", b"content", Create())
                won += 1
            except PreconditionFailed:
                continue
        return won

    with ThreadPoolExecutor(4) as threads:
        wins = list(threads.map(lambda _: asyncio.run(create_all()), range(4)))
    assert sum(wins) == 200


async def test_a_watch_tells_of_changes_under_its_prefix_only() -> None:
    store = MemoryStore()
    assert isinstance(store, Watchable)
    watch = store.watch("log/")
    next_change = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    await store.put("other/1", b"", Create())
    await asyncio.sleep(0)
    assert not next_change.done()
    await store.put("log/1", b"", Create())
    await next_change
    await watch.aclose()  # type: ignore[attr-defined]  # it is a generator


async def test_a_watch_tells_of_deletions() -> None:
    store = MemoryStore()
    await store.put("log/1", b"", Create())
    watch = store.watch("log/")
    next_change = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    await store.delete("log/1")
    await asyncio.wait_for(next_change, 10)
    assert next_change.done()


async def test_a_watch_is_told_from_another_thread() -> None:
    store = MemoryStore()
    watch = store.watch("log/")
    next_change = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    await asyncio.to_thread(lambda: asyncio.run(store.put("log/1", b"", Create())))
    await asyncio.wait_for(next_change, 10)
    assert next_change.done()


def test_a_watch_whose_loop_is_gone_does_not_disturb_writers() -> None:
    store = MemoryStore()

    async def watch_and_leave() -> None:
        watch = store.watch("log/")
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        waiting.cancel()

    asyncio.run(watch_and_leave())
    written = asyncio.run(store.put("log/1", b"", Create()))
    assert written.version == "1"
