"""A store that can't be written still answers: nobody who only looks has to write."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import penstock
from penstock.client.queue import Queue
from penstock.errors import Corrupt, StoreDenied, StoreError, StoreFull
from penstock.kernel.job import State
from penstock.ports.store import PutMode, Written
from penstock.runtime.services import Services
from penstock.stores.layers.layer import Layer
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.steps import AT_ONCE, found, ids, story

LAYOUTS = ["log", "single", "tasks"]


class Refusing(Layer):
    """Takes no write, for a reason."""

    refusal: StoreError | None = None

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        if self.refusal is not None:
            raise self.refusal
        return await super().put(key, data, mode)

    async def delete(self, key: str) -> None:
        if self.refusal is not None:
            raise self.refusal
        await super().delete(key)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Refusing:
    return Refusing(MemoryStore(now=clock.now))


def open_queue(store: Refusing, clock: FakeClock, layout: str) -> Queue:
    return penstock.open(
        store=store, layout=layout, allow_no_versioning=True, services=Services(clock=clock)
    )


async def look_at_everything(queue: Queue) -> None:
    looked = await found(queue, "job")
    assert (looked.state.value, looked.expired) == ("running", True)
    assert sorted(await ids(queue)) == ["job", "other"]
    assert (await queue.stats()).totals
    assert await story(queue, "job") == ["enqueued", "claimed"]
    assert [event.event async for event in queue.events("beginning", follow=False)]


async def fill(queue: Queue, clock: FakeClock) -> None:
    await queue.enqueue("work", id="job", retry=AT_ONCE)
    await queue.claim()
    await queue.enqueue("work", id="other", key="k")
    await clock.advance(40)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "refusal", [StoreDenied("the store", "", "read-only"), StoreFull("the store", "")]
)
async def test_opening_and_reading_write_nothing(
    store: Refusing, clock: FakeClock, layout: str, refusal: StoreError
) -> None:
    async with open_queue(store, clock, layout) as queue:
        await fill(queue, clock)
    store.refusal = refusal
    async with open_queue(store, clock, layout) as queue:
        await look_at_everything(queue)
        with pytest.raises(type(refusal)):
            await queue.enqueue("work")
        await look_at_everything(queue)
        store.refusal = None
        assert await queue.expire() == 1


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_a_read_beside_a_refused_write_is_answered(
    store: Refusing, clock: FakeClock, layout: str
) -> None:
    async with open_queue(store, clock, layout) as queue:
        await fill(queue, clock)
        store.refusal = StoreFull("the store", "")
        refused, read = await asyncio.gather(
            queue.enqueue("work"), queue.get("job"), return_exceptions=True
        )
        assert isinstance(refused, StoreFull)
        assert isinstance(read, penstock.Job)
        assert read.expired


@pytest.fixture
async def sqlite_file(tmp_path: Path, clock: FakeClock) -> Path:
    path = tmp_path / "queue.db"
    async with penstock.open(f"sqlite://{path}", services=Services(clock=clock)) as queue:
        await fill(queue, clock)
    return path


async def test_a_sqlite_file_that_can_not_be_written_is_read(
    sqlite_file: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may write any file, so the connection itself is made one that may not.
    monkeypatch.setattr("penstock.engines.records.sqlite.database.may_write", lambda path: False)
    async with penstock.open(f"sqlite://{sqlite_file}", services=Services(clock=clock)) as queue:
        await look_at_everything(queue)
        with pytest.raises(StoreDenied):
            await queue.enqueue("work")


async def test_who_may_only_read_a_sqlite_file_sees_what_others_write_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before they came, while their log is there, and after they have tidied it away."""
    url = f"sqlite://{tmp_path}/queue.db"
    may_write = "penstock.engines.records.sqlite.database.may_write"
    async with penstock.open(url) as writer:
        await writer.enqueue("work", id="first")
    monkeypatch.setattr(may_write, lambda path: False)
    async with penstock.open(url) as reader:
        assert await ids(reader) == ["first"]
        monkeypatch.undo()
        for round in range(2):
            async with penstock.open(url) as writer:
                names = [f"{round}-{number}" for number in range(300)]
                await writer.enqueue_many([penstock.NewJob("work", id=id) for id in names])
                assert (await found(reader, names[-1])).state.value == "pending"
                for job in await writer.claim(1_000):
                    await writer.ack(job)
            assert (await reader.stats()).totals[State.COMPLETED] == round * 300 + 301
            assert len(await story(reader, names[0])) == 3


async def test_a_sqlite_file_that_was_replaced_is_read_anew_and_one_that_is_broken_is_corrupt(
    sqlite_file: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.engines.records.sqlite.database.may_write", lambda path: False)
    async with penstock.open(f"sqlite://{sqlite_file}", services=Services(clock=clock)) as queue:
        with spoiled(sqlite_file), pytest.raises(Corrupt):
            await queue.get("job")
        await look_at_everything(queue)


@contextmanager
def spoiled(path: Path) -> Iterator[None]:
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"x" * (len(whole) - 4096))
    yield
    path.write_bytes(whole)


async def test_a_folder_that_is_really_read_only_is_read(tmp_path: Path) -> None:
    root, shown = tmp_path / "queue", tmp_path / "shown"
    shown.mkdir()
    async with penstock.open(root.as_uri()) as queue:
        await queue.enqueue("work", id="job")
    with read_only(root, shown):
        async with penstock.open(shown.as_uri()) as queue:
            assert (await found(queue, "job")).state.value == "pending"
            assert await ids(queue) == ["job"]
            with pytest.raises(StoreDenied):
                await queue.enqueue("work")


@contextmanager
def read_only(root: Path, shown: Path) -> Iterator[None]:
    """Root may write anywhere but on what is mounted so."""
    bind = ["mount", "--bind", str(root), str(shown)]
    if os.geteuid() or subprocess.call(bind, stderr=subprocess.DEVNULL):
        pytest.skip("to mount takes root")
    try:
        subprocess.check_call(["mount", "-o", "remount,ro,bind", str(shown)])
        yield
    finally:
        subprocess.check_call(["umount", str(shown)])
