"""A store that goes away: tried again with backoff, said once a minute, and nothing is lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import penstock
from penstock.errors import StoreFull, StoreUnavailable
from penstock.kernel.job import State
from penstock.ports.store import ObjectStore, PutMode, Written
from penstock.runtime import complaints as complaints_module
from penstock.runtime.complaints import Complaints
from penstock.runtime.services import Services
from penstock.stores.layers.layer import Layer
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock
from penstock.testing.faults import Faults
from penstock.testing.faulty_store import FaultyStore
from penstock.testing.kit import Kit
from penstock.worker import registration
from penstock.worker import worker as worker_module
from tests.worker.working import at_work, found, until, until_time_passes

AWAY = Faults(put_error=1.0, get_error=1.0, list_error=1.0, delete_error=1.0)


@asynccontextmanager
async def kit_on(store: ObjectStore, app: penstock.App, clock: FakeClock) -> AsyncIterator[Kit]:
    """The app on a store instead of in memory alone."""
    app.relocate(None, store=store, services=Services(clock=clock))
    async with app:
        yield Kit(app, await app.queue(), clock)


@pytest.fixture
def store(clock: FakeClock) -> FaultyStore:
    return FaultyStore(MemoryStore(now=clock.now), clock, random.Random(7))


@pytest.fixture
def app() -> penstock.App:
    return penstock.App()


def warnings(caplog: pytest.LogCaptureFixture, words: str) -> int:
    return sum(words in record.message for record in caplog.records if record.levelname != "INFO")


async def test_a_worker_outlives_its_stores_absence(
    app: penstock.App, clock: FakeClock, store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def work(number: int) -> int:
        return number

    async with kit_on(store, app, clock) as kit:
        await app.enqueue_many(work.job(n) for n in range(20))
        store.faults = AWAY
        async with at_work(kit, concurrency=4) as worker:
            await clock.advance(180)
            assert worker.counters.completed == 0
            assert 2 <= warnings(caplog, "a claim failed and is tried again") <= 4
            await store.heal()
            await until_time_passes(clock, lambda: worker.counters.completed == 20)
            assert warnings(caplog, "the store answers again") >= 1
        assert [job.result for job in await kit.jobs(state="completed")] == list(range(20))


async def test_what_finished_while_the_store_was_away_is_told_when_it_is_back(
    app: penstock.App, clock: FakeClock, store: FaultyStore
) -> None:
    gate, runs = asyncio.Event(), list[int]()

    @app.task
    async def wait() -> str:
        runs.append(penstock.current_job().attempt)
        await gate.wait()
        return "done"

    async with kit_on(store, app, clock) as kit:
        receipt = await wait.enqueue()
        async with at_work(kit) as worker:
            await worker.until_running(1)
            store.faults = AWAY
            gate.set()
            await worker.until_running(0)
            await clock.advance(5)
            assert worker.counters.completed == 0
            await store.heal()
            await until_time_passes(clock, lambda: worker.counters.completed == 1)
        assert (await found(kit, receipt.id)).result == "done"
    assert runs == [1]


async def test_a_handler_is_stopped_when_its_lease_must_have_run_out(
    app: penstock.App, clock: FakeClock, store: FaultyStore
) -> None:
    stopped: list[float] = []

    @app.task
    async def work() -> None:
        if penstock.current_job().attempt == 1:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append(clock.elapsed())

    async with kit_on(store, app, clock) as kit:
        receipt = await work.enqueue()
        async with at_work(kit) as worker:
            await worker.until_running(1)
            began = clock.elapsed()
            store.faults = AWAY
            await until_time_passes(clock, lambda: bool(stopped))
            assert stopped[0] - began < 32
            await store.heal()
            await until_time_passes(clock, lambda: worker.counters.completed == 1)
        job = await found(kit, receipt.id)
        assert (job.state, job.attempt, job.failures) == (State.COMPLETED, 2, 1)


async def test_progress_that_could_not_be_told_is_told_later(
    app: penstock.App, clock: FakeClock, store: FaultyStore
) -> None:
    @app.task
    async def work(context: penstock.JobContext) -> None:
        context.progress(0.5)
        await asyncio.Event().wait()

    async with kit_on(store, app, clock) as kit:
        receipt = await work.enqueue()
        async with at_work(kit) as worker:
            await worker.until_running(1)
            store.faults = AWAY
            await clock.advance(11)
            await store.heal()
            await clock.advance(10)
            assert (await found(kit, receipt.id)).progress == 0.5


@pytest.mark.parametrize("seed", range(5))
async def test_with_lost_requests_and_lost_answers_every_job_completes_once(
    app: penstock.App, clock: FakeClock, seed: int
) -> None:
    faults = Faults(put_error=0.1, put_lost_request=0.1, put_lost_answer=0.1, get_error=0.1)
    store = FaultyStore(MemoryStore(now=clock.now), clock, random.Random(seed))

    @app.task(max_attempts=100)
    async def work(number: int) -> int:
        return number

    async with kit_on(store, app, clock) as kit:
        await app.enqueue_many(work.job(n) for n in range(100))
        store.faults = faults
        async with at_work(kit, concurrency=8) as worker:
            await until_time_passes(clock, lambda: worker.counters.completed >= 100)
            await store.heal()
        assert sorted(job.result for job in await kit.jobs(state="completed")) == list(range(100))
        events = [event.event async for event in kit.queue.events("beginning", follow=False)]
        assert events.count("completed") == 100
    assert store.injected


class Disk(Layer):
    """A store with or without space."""

    is_full = False

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        if self.is_full:
            raise StoreFull(self.name, key)
        return await super().put(key, data, mode)


async def test_on_a_full_disk_jobs_are_kept_and_go_on_when_there_is_space(
    app: penstock.App, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk(MemoryStore(now=clock.now))

    @app.task
    async def work(number: int) -> int:
        return number

    async with kit_on(disk, app, clock) as kit:
        await app.enqueue_many(work.job(n) for n in range(5))
        disk.is_full = True
        async with at_work(kit) as worker:
            await clock.advance(30)
            assert warnings(caplog, "no space left; free some and retry, nothing was lost") == 1
            assert len(await kit.jobs(state="pending")) == 5
            disk.is_full = False
            await until_time_passes(clock, lambda: worker.counters.completed == 5)


async def test_a_worker_stops_although_its_store_is_away(
    app: penstock.App,
    clock: FakeClock,
    store: FaultyStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(worker_module, "STOP_SECONDS_MAX", 0.05)
    monkeypatch.setattr(registration, "FAREWELL_SECONDS_MAX", 0.05)

    @app.task
    async def for_ever() -> None:
        await asyncio.Event().wait()

    async with kit_on(store, app, clock) as kit:
        receipt = await for_ever.enqueue()
        async with at_work(kit, grace_seconds=0) as worker:
            await worker.until_running(1)
            store.faults = AWAY
            worker.worker.stop()
            worker.worker.stop()
            async with asyncio.timeout(10):
                await worker.task
        assert "could not be told how some jobs ended" in caplog.text
        await store.heal()
        assert (await found(kit, receipt.id)).state is State.RUNNING


async def test_a_worker_whose_store_is_silent_is_not_ready(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kit.app.task(name="work")(lambda: None)
    answers, claim = asyncio.Event(), kit.queue.claim

    async def wait(*arguments: Any, **options: Any) -> Any:
        await answers.wait()
        return await claim(*arguments, **options)

    monkeypatch.setattr(complaints_module, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(kit.queue, "claim", wait)
    async with at_work(kit) as worker:
        await until(lambda: worker.worker.why_not_ready == "its store does not answer")
        assert warnings(caplog, "a claim has had no answer for") == 1
        await kit.queue.enqueue("work")
        answers.set()
        await until(lambda: worker.counters.completed == 1)
        await until(lambda: worker.worker.why_not_ready is None)


def test_trouble_is_said_once_a_minute_and_its_end_once(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    complaints = Complaints(worker_module.logger, clock)
    complaints.fine()
    for _ in range(121):
        complaints.trouble("a claim", StoreUnavailable("s3", "", "503"))
        complaints.trouble("a heartbeat", TimeoutError())
        clock.jump(1)
    complaints.fine()
    complaints.fine()
    assert warnings(caplog, "failed and is tried again") == 3
    assert warnings(caplog, "answers again") == 1


def test_a_store_that_comes_and_goes_is_not_talked_about_all_the_time(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    complaints = Complaints(worker_module.logger, clock)
    for _ in range(59):
        complaints.trouble("a heartbeat", TimeoutError())
        complaints.fine()
        clock.jump(1)
    assert warnings(caplog, "a heartbeat failed and is tried again: no answer in time") == 1
    assert warnings(caplog, "answers again") == 1


async def test_a_store_that_is_away_from_the_start_is_an_error_to_whoever_starts(
    app: penstock.App, clock: FakeClock, store: FaultyStore
) -> None:
    store.faults = Faults(put_error=1.0)
    app.relocate(None, store=store, services=Services(clock=clock))
    app.task(name="work")(lambda: None)
    worker = asyncio.ensure_future(penstock.Worker(app).run())
    await until_time_passes(clock, worker.done)
    with pytest.raises(StoreUnavailable):
        await worker
