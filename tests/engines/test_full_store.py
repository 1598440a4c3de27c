"""A full store answers, refuses what adds to it, loses nothing, and can be vacuumed."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import Job, NewJob, Queue
from penstock.engines.ledger.log.tail import TAIL_BYTES_MIN, Tail
from penstock.engines.names import PROBES
from penstock.errors import StoreFull
from penstock.kernel.job import State
from penstock.ports.store import Create, PutMode, Written
from penstock.runtime.services import Services
from penstock.stores.layers.layer import Layer
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.steps import (
    AT_ONCE,
    claim_one,
    claimed,
    found,
    ids,
    story,
)
from tests.cli.running import Penstock
from tests.engines.stores import keys

EVERY = 4
DAY_SECONDS = 86_400.0


class Disk(Layer):
    """One that can be full, and keeps a reserve."""

    is_full = False
    has_reserve = False

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        if self.is_full:
            raise StoreFull("the disk", key)
        return await super().put(key, data, mode)

    async def keep_reserve(self) -> None:
        self.has_reserve = True

    async def give_up_reserve(self) -> bool:
        had_one, self.has_reserve, self.is_full = self.has_reserve, False, False
        return had_one


@pytest.fixture
def disk() -> tuple[Disk, FakeClock]:
    clock = FakeClock()
    return Disk(MemoryStore(now=clock.now)), clock


async def test_the_floor_of_a_full_store_is_raised_with_its_reserve(
    disk: tuple[Disk, FakeClock], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tail.__init__, "__defaults__", (TAIL_BYTES_MIN, EVERY))
    store, clock = disk
    for n in range(3 * EVERY):
        async with penstock.open(store=store, services=Services(clock=clock)) as queue:
            await queue.enqueue("work", id=str(n))
    await clock.advance(8 * DAY_SECONDS)
    assert len(await keys(store, "checkpoint/")) == 3
    assert store.has_reserve
    store.is_full = True
    async with penstock.open(store=store, services=Services(clock=clock)) as queue:
        report = await queue.vacuum()
    assert report.log_objects == report.floor - 1 > 0
    assert len(await keys(store, "checkpoint/")) == 2
    assert store.has_reserve, "it is there for the next time"


async def test_what_needs_no_write_goes_even_without_a_reserve(
    disk: tuple[Disk, FakeClock], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tail.__init__, "__defaults__", (TAIL_BYTES_MIN, EVERY))
    store, clock = disk
    for n in range(3 * EVERY):
        async with penstock.open(store=store, services=Services(clock=clock)) as queue:
            await queue.enqueue("work", id=str(n))
    await store.put(f"{PROBES}left", b"by a process that died", Create())
    await clock.advance(DAY_SECONDS)
    store.is_full, store.has_reserve = True, False
    async with penstock.open(store=store, services=Services(clock=clock)) as queue:
        with pytest.raises(StoreFull):
            await queue.vacuum()
    assert len(await keys(store, "checkpoint/")) == 2
    assert await keys(store, PROBES) == []


@pytest.mark.parametrize("layout", ["single", "tasks"])
async def test_a_full_store_answers_and_refuses_and_goes_on_once_it_was_vacuumed(
    disk: tuple[Disk, FakeClock], layout: str
) -> None:
    store, clock = disk
    services = Services(clock=clock)
    async with penstock.open(store=store, layout=layout, services=services) as queue:
        await queue.configure(log_retention_seconds=3_600)
        await queue.ack(await claimed(queue, id="old"))
        await clock.advance(DAY_SECONDS)
        held = await claimed(queue, id="held", retry=AT_ONCE)
        await queue.enqueue("work", id="waiting")
        await queue.vacuum()
        store.is_full = True
        await refuses_and_answers(queue, held)
        await clock.advance(DAY_SECONDS)
        assert store.has_reserve
        await queue.vacuum()
        await goes_on(queue)


class Bounded(sqlite3.Connection):
    """A database that can be full."""

    pages_max = 2**30

    def execute(self, statement: str, parameters: Any = ()) -> sqlite3.Cursor:
        if statement.startswith("BEGIN"):
            super().execute(f"PRAGMA max_page_count = {self.pages_max}")
        return super().execute(statement, parameters)


async def test_a_full_database_answers_and_refuses_and_goes_on_once_it_was_vacuumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *given, **more: connect(*given, factory=Bounded, **more)
    )
    monkeypatch.setattr(Bounded, "pages_max", 2**30)
    clock = FakeClock()
    url = f"sqlite://{tmp_path}/queue.db?fsync=off"
    async with penstock.open(url, services=Services(clock=clock)) as queue:
        await queue.configure(log_retention_seconds=3_600, result_ttl_seconds=0)
        for number in range(20):
            await queue.ack(await claimed(queue, id=f"old{number}", payload="x" * 20_000))
        await clock.advance(DAY_SECONDS)
        await queue.enqueue_many([NewJob("other", retry=AT_ONCE) for _ in range(50)])
        await queue.claim(50)
        held = await claimed(queue, id="held", retry=AT_ONCE)
        await queue.enqueue("work", id="waiting")
        with closing(connect(tmp_path / "queue.db")) as other:
            [pages] = other.execute("PRAGMA page_count").fetchone()
        # What vacuum gives back can be had again.
        monkeypatch.setattr(Bounded, "pages_max", pages)
        await refuses_and_answers(queue, held)
        await clock.advance(DAY_SECONDS)
        with pytest.raises(StoreFull):
            await queue.expire()
        assert (await queue.vacuum()).log_objects, "dead leases that can't be recorded can wait"
        await goes_on(queue)


async def test_a_database_on_a_full_disk_can_be_opened_and_looked_at(tmp_path: Path) -> None:
    """Closed before, so that nothing of what writers share is beside it."""
    with small_disk(tmp_path) as disk:
        url = f"sqlite://{disk}/queue.db"
        async with penstock.open(url) as queue:
            await queue.enqueue("work", id="waiting")
        filling = fill(disk)
        async with penstock.open(url) as queue:
            assert (await queue.stats()).totals[State.PENDING] == 1
            assert (await found(queue, "waiting")).state is State.PENDING
            with pytest.raises(StoreFull):
                await queue.enqueue("work")
            assert (await asyncio.to_thread(Penstock(url), "stats")).code == 0
            filling.unlink()
            await queue.ack(await claim_one(queue))
            assert (await found(queue, "waiting")).state is State.COMPLETED


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)]
    if os.geteuid() or subprocess.call(mount, stderr=subprocess.DEVNULL):
        pytest.skip("to mount takes root")
    try:
        yield disk
    finally:
        subprocess.check_call(["umount", str(disk)])


def fill(disk: Path) -> Path:
    path = disk / "filling"
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4_096))
    return path


async def refuses_and_answers(queue: Queue, held: Job) -> None:
    """Nothing is lost: what was refused did not happen."""
    with pytest.raises(StoreFull, match="free some and retry"):
        await queue.enqueue("work", "x" * 20_000, id="refused")
    with pytest.raises(StoreFull):
        await queue.ack(held, "y" * 20_000)
    assert (await found(queue, "held")).state is State.RUNNING
    assert await story(queue, "held") == ["enqueued", "claimed"]
    assert (await found(queue, "waiting")).state is State.PENDING
    assert await queue.get("refused") is None
    assert (await queue.stats()).totals[State.PENDING] == 1
    assert {"held", "waiting"} <= set(await ids(queue))


async def goes_on(queue: Queue) -> None:
    await queue.enqueue("work", id="refused")
    jobs = {job.id: job for job in await queue.claim(9, types=["work"])}
    assert set(jobs) == {"held", "waiting", "refused"}
    assert jobs["held"].attempt == 2
    await queue.ack(list(jobs.values()))
