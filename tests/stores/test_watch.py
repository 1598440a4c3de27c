"""Watching a folder: for one's own process and for others."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Self, cast

import pytest

from penstock.errors import StoreError
from penstock.ports.store import Create, Overwrite
from penstock.stores.local import LocalStore
from penstock.stores.watched import WatchedLocalStore

WAIT_SECONDS_MAX = 20

PUT_ONE = """
import asyncio, sys
from penstock.ports.store import Create
from penstock.stores.local import LocalStore
asyncio.run(LocalStore(sys.argv[1]).put(sys.argv[2], b"content", Create()))
"""


class Watching:
    """A watch that is ready: it has told the one change that every watch begins with."""

    def __init__(self, root: Path, prefix: str) -> None:
        self.store = WatchedLocalStore(root)
        self._prefix = prefix

    async def __aenter__(self) -> Self:
        self._watch = cast(AsyncGenerator[None], self.store.watch(self._prefix))
        await self.change()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._watch.aclose()
        await self.store.close()
        for thread in threading.enumerate():
            if thread.name == "penstock-watch":
                thread.join(WAIT_SECONDS_MAX)

    async def change(self) -> None:
        await asyncio.wait_for(anext(self._watch), WAIT_SECONDS_MAX)


def watchers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "penstock-watch"]


async def test_a_put_by_another_process_is_noticed(tmp_path: Path) -> None:
    async with Watching(tmp_path, "log/") as watching:
        change = asyncio.ensure_future(watching.change())
        await asyncio.to_thread(
            subprocess.check_call, [sys.executable, "-c", PUT_ONE, str(tmp_path), "log/1"]
        )
        await change
        assert (await watching.store.get("log/1")).data == b"content"


@pytest.mark.parametrize("prefix", ["", "log/", "log/0"])
async def test_puts_and_deletes_under_the_prefix_are_noticed(tmp_path: Path, prefix: str) -> None:
    async with Watching(tmp_path, prefix) as watching:
        await watching.store.put("log/01", b"content", Create())
        await watching.change()
        await watching.store.delete("log/01")
        await watching.change()
        assert [entry async for entry in watching.store.list("log/")] == []


async def test_an_overwrite_is_noticed(tmp_path: Path) -> None:
    await LocalStore(tmp_path).put("queue.json", b"before", Create())
    async with Watching(tmp_path, "queue.json") as watching:
        await watching.store.put("queue.json", b"after", Overwrite())
        await watching.change()
        assert (await watching.store.get("queue.json")).data == b"after"


async def test_changes_elsewhere_are_not_told(tmp_path: Path) -> None:
    async with Watching(tmp_path, "log/") as watching:
        change = asyncio.ensure_future(watching.change())
        await watching.store.put("floor", b"0", Overwrite())
        await watching.store.put("checkpoint/1", b"", Create())
        assert not change.done()
        await watching.store.put("log/1", b"", Create())
        await change
        assert change.done()


async def test_closing_a_watch_ends_its_thread(tmp_path: Path) -> None:
    async with Watching(tmp_path, "log/"):
        assert len(watchers()) == 1
    assert watchers() == []


async def test_cancelling_a_watcher_ends_its_thread(tmp_path: Path) -> None:
    store = WatchedLocalStore(tmp_path)

    async def follow() -> None:
        async for _ in store.watch("log/"):
            started.set()

    started = asyncio.Event()
    following = asyncio.ensure_future(follow())
    await asyncio.wait_for(started.wait(), WAIT_SECONDS_MAX)
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    for thread in watchers():
        thread.join(WAIT_SECONDS_MAX)
    assert watchers() == []


async def test_a_folder_that_can_not_be_watched_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoWatchesLeft:
        def __init__(self, *_: object) -> None:
            raise RuntimeError("OS file watch limit reached")

    monkeypatch.setattr("watchfiles._rust_notify.RustNotify", NoWatchesLeft)
    with pytest.raises(StoreError, match="limit reached"):
        await anext(WatchedLocalStore(tmp_path).watch("log/"))


def test_a_watch_that_nobody_closed_does_not_keep_the_program(tmp_path: Path) -> None:
    program = """
import asyncio, sys
from penstock.stores.local import local_store

async def main():
    global watch
    watch = local_store(sys.argv[1]).watch("log/")
    await anext(watch)

loop = asyncio.new_event_loop()
loop.run_until_complete(main())
print("end")
"""
    command = [sys.executable, "-W", "ignore", "-c", program, str(tmp_path)]
    ended = subprocess.run(command, timeout=30, capture_output=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, b"end\n")
