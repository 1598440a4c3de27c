"""Checkpoints: written beside the commits, used at start-up, skipped when they are bad."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

import penstock
from penstock import Queue
from penstock.engines.ledger.log.journal import DIRECT_WRITERS_MAX
from penstock.engines.ledger.log.tail import TAIL_BYTES_MIN, Tail
from penstock.engines.ledger.names import checkpoint_key, commit_in, log_key
from penstock.kernel.state import QueueState
from penstock.runtime.services import Services
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.steps import HANG_SECONDS, ids
from tests.engines.stores import Recorded, checkpointed, keys

EVERY = 8


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint every few commits."""
    monkeypatch.setattr(Tail.__init__, "__defaults__", (TAIL_BYTES_MIN, EVERY))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> MemoryStore:
    return MemoryStore(now=clock.now)


@pytest.mark.usefixtures("often")
async def test_a_checkpoint_is_written_when_the_tail_is_long(
    store: MemoryStore, clock: FakeClock
) -> None:
    async with penstock.open(store=store, services=Services(clock=clock)) as queue:
        for n in range(EVERY):
            await queue.enqueue("work", id=str(n))
        [key] = await _stored_checkpoints(store, queue)
        assert commit_in(key) == EVERY
        await queue.enqueue("work")
    written = (await store.get(key)).data
    await store.delete(key)
    await checkpointed(store, EVERY)
    assert (await store.get(key)).data == written, "it is not the fold of the log"


@pytest.mark.usefixtures("often")
async def test_others_are_told_so_that_the_next_one_is_due_later(
    store: MemoryStore, clock: FakeClock
) -> None:
    async with penstock.open(store=store, services=Services(clock=clock)) as queue:
        for n in range(EVERY):
            await queue.enqueue("work", id=str(n))
        await _stored_checkpoints(store, queue)
        for n in range(EVERY, 2 * EVERY - 1):
            await queue.enqueue("work", id=str(n))
        assert await keys(store, "checkpoint/") == [checkpoint_key(EVERY)]
        seen = [event.event async for event in _system_events(queue)]
        assert seen == ["checkpointed"]


@pytest.mark.usefixtures("often")
async def test_of_several_processes_one_writes_each_checkpoint(
    store: MemoryStore, clock: FakeClock
) -> None:
    recorded = [Recorded(store), Recorded(store)]
    services = Services(clock=clock)
    async with (
        penstock.open(store=recorded[0], services=services) as first,
        penstock.open(store=recorded[1], services=services) as second,
    ):
        for n in range(4 * EVERY):
            await (first, second)[n % 2].enqueue("work")
            if n % EVERY == EVERY - 1:
                await _stored_checkpoints(store, first, count=(n + 1) // EVERY)
    puts = [key for one in recorded for what, key in one.requests if what == "put"]
    written = [key for key in puts if key.startswith("checkpoint/")]
    assert len(written) == len(set(written)) == 4


async def test_start_up_uses_the_newest_checkpoint(store: MemoryStore, clock: FakeClock) -> None:
    services = Services(clock=clock)
    async with penstock.open(store=store, services=services) as queue:
        for n in range(12):
            await queue.enqueue("work", id=f"{n:02}")
    await checkpointed(store, 5)
    await checkpointed(store, 9)
    for number in range(1, 10):
        await store.delete(log_key(number))
    recorded = Recorded(store)
    async with penstock.open(store=recorded, services=services) as again:
        assert await ids(again) == [f"{n:02}" for n in range(12)]
        await again.enqueue("work", id="12")
    read = {key for what, key in recorded.requests if what == "get" and key.startswith("log/")}
    assert read <= {log_key(number) for number in range(10, 14 + 32)}


async def test_a_queue_goes_on_from_a_checkpoint_as_if_it_had_read_everything(
    store: MemoryStore, clock: FakeClock
) -> None:
    services = Services(clock=clock)
    async with penstock.open(store=store, services=services) as queue:
        for n in range(6):
            await queue.enqueue("work", id=str(n), priority=-n, key=f"k{n}", delay_seconds=n)
        await queue.pause("images")
        jobs = await queue.claim(1)
    await checkpointed(store, 8)
    await clock.advance(60)
    async with penstock.open(store=store, services=services) as again:
        assert (await again.enqueue("work", key="k3")).id == "3"
        assert [job.id for job in await again.claim(9)] == ["5", "4", "3", "2", "1"]
        assert (await again.stats()).queues[-1].paused
        with pytest.raises(penstock.LeaseLost):
            await again.ack(jobs[0])


def test_the_tail_is_weighed_by_objects_and_by_bytes() -> None:
    state, tail = QueueState(), Tail(bytes_min=1000, objects_max=5)
    for number in range(1, 5):
        before = tail.weight(state)
        tail.add(number, 10, checkpoint_commit=0)
        assert not tail.has_crossed(before, state)
    tail.add(5, 10, checkpoint_commit=0)
    assert tail.weight(state) == 1
    tail.add(6, 2000, checkpoint_commit=0)
    assert tail.weight(state) == 2
    tail.add(7, 10, checkpoint_commit=6)
    assert tail.weight(state) == 0


async def _stored_checkpoints(store: MemoryStore, queue: Queue, count: int = 1) -> list[str]:
    """They are written in the background: looks until there are so many."""
    async with asyncio.timeout(HANG_SECONDS):
        while len(found := await keys(store, "checkpoint/")) < count:
            await queue.stats()
    return found


async def _system_events(queue: Queue):  # type: ignore[no-untyped-def]
    """Events of the whole queue until now."""
    last = (await queue.stats()).commit
    for commit in range(1, last + 1):
        _, events = await queue._backend._engine._journal.read_on(commit)  # type: ignore[attr-defined]
        for event in events:
            if event.tenant == "":
                yield event


@pytest.mark.usefixtures("often")
async def test_a_queue_that_only_short_lived_processes_write_gets_its_checkpoints(
    store: MemoryStore, clock: FakeClock
) -> None:
    for n in range(EVERY):
        async with penstock.open(store=store, services=Services(clock=clock)) as queue:
            await queue.enqueue("work", id=str(n))
    assert [commit_in(key) for key in await keys(store, "checkpoint/")] == [EVERY]


async def test_writers_that_lived_for_one_call_are_not_counted_as_writing(
    store: MemoryStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(DIRECT_WRITERS_MAX + 2):
        async with penstock.open(store=store, services=Services(clock=clock)) as queue:
            await queue.enqueue("work")
    assert "put a broker between" not in caplog.text


async def test_processes_that_write_now_are_counted_and_those_of_before_are_not(
    store: MemoryStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    services = Services(clock=clock)
    async with AsyncExitStack() as stack:
        for _ in range(DIRECT_WRITERS_MAX + 1):
            queue = await stack.enter_async_context(penstock.open(store=store, services=services))
            await queue.enqueue("work")
            await queue.enqueue("work")
        async with penstock.open(store=store, services=services):
            assert f"{DIRECT_WRITERS_MAX + 1} processes write" in caplog.text
    caplog.clear()
    await clock.advance(6)
    async with penstock.open(store=store, services=services):
        assert "processes write" not in caplog.text
