"""A change that comes while nobody waits is not lost for whoever waits next."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import penstock
from penstock.engines.watching import Watcher
from penstock.errors import StoreUnavailable
from penstock.runtime.services import Services
from penstock.runtime.tasks import Latch
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock, turns
from penstock.testing.conformance.backend.steps import meanwhile

HANG_SECONDS = 30.0


class Watched(MemoryStore):
    """Says that it changed when the test does."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: asyncio.Queue[None] = asyncio.Queue()

    async def watch(self, prefix: str) -> AsyncIterator[None]:
        while True:
            await self.changes.get()
            yield


async def test_a_change_between_two_waits_ends_the_second_at_once() -> None:
    store = Watched()
    watcher = Watcher(store, "log/", Services())
    async with asyncio.timeout(HANG_SECONDS):
        for _ in range(2):
            store.changes.put_nowait(None)
            await turns()
            await watcher.changed(2 * HANG_SECONDS)
    await watcher.stop()


async def test_what_was_waited_for_is_forgotten() -> None:
    latch = Latch()
    latch.set()
    await latch.wait(HANG_SECONDS)
    again = asyncio.ensure_future(latch.wait(HANG_SECONDS))
    await turns()
    assert not again.done()
    latch.set()
    await again


class Exhausted(MemoryStore):
    """The system has no watches left."""

    async def watch(self, prefix: str) -> AsyncIterator[None]:
        if prefix:
            raise StoreUnavailable("the folder", prefix, "no space left on device")
        yield


async def test_where_no_watch_is_left_it_is_said_once_and_looked_at_instead(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watcher = Watcher(Exhausted(), "log/", Services(clock=FakeClock(autojump=True)))
    async with asyncio.timeout(HANG_SECONDS):
        for _ in range(5):
            await watcher.changed(2 * HANG_SECONDS)
    await watcher.stop()
    [warning] = caplog.records
    assert "inotify" in warning.getMessage()


async def test_a_queue_without_watches_left_hears_of_others_and_closes_without_noise() -> None:
    clock = FakeClock()
    store = Exhausted(now=clock.now)
    services = Services(clock=clock)
    other = penstock.open(store=store, services=services)
    async with (
        penstock.open(store=store, services=services) as queue,
        other,
        meanwhile(queue.claim(wait_seconds=60)) as claiming,
    ):
        await other.enqueue("work", id="job")
        while not claiming.done():
            await clock.advance(0.5)
        assert [job.id for job in claiming.result()] == ["job"]


WITHOUT_INOTIFY = ["unshare", "--user", "--map-root-user", "sh", "-c"]
"""A name space of users has a limit of its own, so that nobody else runs out."""
USED_UP = "echo 0 > /proc/sys/user/max_inotify_instances"

WAITER = """
import logging, sys
import penstock

logging.basicConfig(format="%(levelname)s %(message)s", stream=sys.stdout)
with penstock.open_sync(sys.argv[1]) as queue:
    print("waiting", flush=True)
    [job] = queue.claim(wait_seconds=60)
    queue.ack(job)
    print("done", job.id, flush=True)
"""


def test_a_process_for_which_inotify_is_really_used_up_hears_of_others_and_ends_in_peace(
    tmp_path: Path,
) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("no name spaces here")
    if subprocess.run([*WITHOUT_INOTIFY, USED_UP], check=False).returncode:
        pytest.skip("no name spaces for this user")
    command = [*WITHOUT_INOTIFY, f'{USED_UP}; exec "$0" "$@"', sys.executable, "-c", WAITER]
    with (
        penstock.open_sync(f"file://{tmp_path}/queue") as queue,
        subprocess.Popen(
            [*command, f"file://{tmp_path}/queue"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        ) as waiter,
    ):  # fmt: skip
        assert waiter.stdout is not None
        lines = [waiter.stdout.readline()]
        queue.enqueue("work", id="job")
        lines += waiter.communicate(timeout=HANG_SECONDS)[0].splitlines(keepends=True)
    assert waiter.returncode == 0, lines
    assert (lines[0], lines[-1]) == ("waiting\n", "done job\n")
    assert len([line for line in lines if "inotify is used up" in line]) <= 1
    assert not any("Traceback" in line or "ERROR" in line for line in lines)
