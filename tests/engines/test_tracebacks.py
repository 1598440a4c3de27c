"""Tracebacks weigh nothing until somebody asks for one."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

import penstock
from penstock.client.queue import Queue
from penstock.engines.histories import EVENT_BYTES
from penstock.engines.ledger.log import reader
from penstock.engines.ledger.memory import RING_EVENTS_MAX, SharedMemory
from penstock.engines.ledger.names import QUEUE, TRACEBACKS
from penstock.errors import JobFailed
from penstock.kernel.events import Failed
from penstock.kernel.job import State
from penstock.kernel.stamps import THE_BEGINNING
from penstock.ports.store import Overwrite
from penstock.runtime.services import Services
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.steps import meanwhile
from penstock.wire.snapshot import all_jobs
from tests.engines.stores import keys

JOBS = 40
TRACEBACK = "in line 7\n" * 400


@pytest.fixture
def store(clock: FakeClock) -> MemoryStore:
    return MemoryStore(now=clock.now)


@pytest.fixture
async def queue(store: MemoryStore, clock: FakeClock) -> AsyncIterator[Queue]:
    services = Services(clock=clock)
    async with penstock.open(store=store, layout="single", services=services) as queue:
        yield queue


@pytest.mark.parametrize("layout", ["log", "single", "tasks"])
async def test_a_failed_job_weighs_the_same_with_and_without_a_traceback(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is remembered for followers is bounded by itself.
    monkeypatch.setattr(reader, "REMEMBERED_EVENTS_MAX", 0)
    plain = await _grown_bytes(f"file://{tmp_path}/plain?layout={layout}&fsync=off", None)
    told = await _grown_bytes(f"file://{tmp_path}/told?layout={layout}&fsync=off", TRACEBACK)
    assert (told - plain) / JOBS < 200


async def _grown_bytes(url: str, traceback: str | None) -> int:
    """By how much this process grows while jobs fail, and begin to run again."""
    async with penstock.open(url) as queue:
        new = [penstock.NewJob("work", retry=penstock.RetryPolicy(0)) for _ in range(JOBS)]
        await queue.enqueue_many(new)
        jobs = await queue.claim(JOBS)
        gc.collect()
        tracemalloc.start()
        try:
            for job in jobs:
                own = None if traceback is None else f"{job.id} {traceback}"
                await queue.nack(job, "boom", traceback=own)
            del jobs
            assert len(await queue.claim(JOBS)) == JOBS
            # The engine lets go of a batch when it takes up the next.
            assert await queue.claim() == []
            gc.collect()
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()


def test_what_is_remembered_for_followers_is_bounded_with_tracebacks_too() -> None:
    failed = Failed(
        1, 0.0, "default", "default", "work", "id", 1, enqueued_at=0.0, due_at=0.0,
        started_at=0.0, worker=None, attempt=1, failures=1, max_attempts=1,
        kind="error", error="boom", traceback=TRACEBACK,
    )  # fmt: skip
    shared, log = SharedMemory(MemoryStore()), reader.LogReader(MemoryStore(), Services())
    for commit in range(200):
        log.remember(commit, [failed] * 100)
        shared.add([failed] * 100, THE_BEGINNING, lambda: None)
    for kept, most in (
        (log._recent, reader.REMEMBERED_EVENTS_MAX),
        (shared.ring, RING_EVENTS_MAX),
    ):
        assert 100 < sum(map(len, kept.values())) <= most * EVENT_BYTES / len(TRACEBACK)


async def test_the_state_of_memory_has_none() -> None:
    async with penstock.open("memory://") as queue:
        await _fail(queue, "job")
        job = await queue.get("job")
        assert job is not None
        jobs = all_jobs(queue._backend._journal.state)  # type: ignore[attr-defined]
        assert b"line 7" not in msgspec.json.encode(list(jobs), enc_hook=str)


async def test_layout_single_keeps_them_beside_its_object(
    queue: Queue, store: MemoryStore, clock: FakeClock
) -> None:
    await _fail(queue, "job")
    assert b"in line 7" not in (await store.get(QUEUE)).data
    assert len(await keys(store, TRACEBACKS)) == 1
    async with penstock.open(store=store, services=Services(clock=clock)) as other:
        [failure] = await other.failures("job")
        assert (failure.traceback, failure.vacuumed) == (TRACEBACK, False)


async def test_a_call_hears_what_another_process_failed_with(
    queue: Queue, store: MemoryStore, clock: FakeClock
) -> None:
    async with penstock.open(store=store, services=Services(clock=clock)) as other:

        async def call() -> JobFailed:
            with pytest.raises(JobFailed) as raised:
                await other.call("work", id="job")
            return raised.value

        async with meanwhile(call()) as told:
            await _fail_claimed(queue)
    assert told.result().traceback == TRACEBACK


async def test_a_traceback_that_was_vacuumed_is_said_to_be_gone(
    queue: Queue, store: MemoryStore, clock: FakeClock
) -> None:
    await queue.configure(log_retention_seconds=3600)
    await _fail(queue, "job")
    await clock.advance(7200)
    assert (await queue.vacuum()).log_objects == 1
    assert await keys(store, TRACEBACKS) == []
    [failure] = await queue.failures("job")
    assert (failure.message, failure.traceback, failure.vacuumed) == ("boom", None, True)


async def test_a_damaged_traceback_hides_nothing_else(queue: Queue, store: MemoryStore) -> None:
    await _fail(queue, "job")
    [key] = await keys(store, TRACEBACKS)
    await store.put(key, (await store.get(key)).data.replace(b"line 7", b"line 8"), Overwrite())
    [failure] = await queue.failures("job")
    assert (failure.message, failure.traceback, failure.vacuumed) == ("boom", None, True)


async def _fail(queue: Queue, id: str) -> None:
    await queue.enqueue("work", id=id)
    await _fail_claimed(queue)


async def _fail_claimed(queue: Queue) -> None:
    [job] = await queue.claim(wait_seconds=20)
    assert await queue.nack(job, "boom", retry=False, traceback=TRACEBACK) is State.FAILED
