"""Moments that pass: a clock that is off for a while, results that nobody can be told of yet."""

from __future__ import annotations

import asyncio

import pytest

import penstock
from penstock.errors import LeaseLost, StoreUnavailable
from penstock.kernel.job import State
from penstock.ports.store import PutMode, Written
from penstock.runtime.services import Services
from penstock.stores.layers.layer import Layer
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock
from penstock.testing.kit import Kit
from penstock.worker.options import WorkerOptions
from tests.worker.working import at_work, found, until, until_time_passes


class SkewedStore(MemoryStore):
    """One whose clock is ahead of the machine's by a while."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(now=lambda: clock.now() + self.ahead_seconds)
        self.ahead_seconds = 0.0


class Refusing(Layer):
    """A store that takes everything but large values."""

    is_refusing = False

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        if self.is_refusing and key.startswith("data/"):
            raise StoreUnavailable(self.name, key, "not now")
        return await super().put(key, data, mode)


@pytest.fixture
def app() -> penstock.App:
    return penstock.App()


async def test_a_worker_waits_until_its_clock_is_right_again(
    app: penstock.App, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = SkewedStore(clock)
    app.relocate(None, store=store, services=Services(clock=clock))

    @app.task
    async def work() -> str:
        return "done"

    async with app:
        kit = Kit(app, await app.queue(), clock)
        receipt = await work.enqueue()
        store.ahead_seconds = 60.0
        # By then clocks are compared again.
        await clock.advance(301)
        async with at_work(kit) as worker:
            await clock.advance(60)
            assert not worker.task.done()
            assert worker.counters.completed == 0
            assert "a claim failed and is tried again: this machine's clock is" in caplog.text
            store.ahead_seconds = 0.0
            await until_time_passes(clock, lambda: worker.counters.completed == 1)
        assert (await found(kit, receipt.id)).result == "done"


async def test_a_handler_whose_lease_can_not_be_extended_for_a_wrong_clock_is_stopped(
    app: penstock.App, clock: FakeClock
) -> None:
    store, stopped = SkewedStore(clock), list[float]()
    app.relocate(None, store=store, services=Services(clock=clock))

    @app.task(timeout_seconds=10_000)
    async def work() -> None:
        if penstock.current_job().attempt == 1:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append(clock.elapsed())

    async with app:
        kit = Kit(app, await app.queue(), clock)
        await work.enqueue()
        async with at_work(kit) as worker:
            await worker.until_running(1)
            store.ahead_seconds = 60.0
            await until_time_passes(clock, lambda: bool(stopped))
            assert not worker.task.done()
            store.ahead_seconds = 0.0
            await until_time_passes(clock, lambda: worker.counters.completed == 1)


async def test_a_block_outlives_a_moment_of_a_wrong_clock(clock: FakeClock) -> None:
    store = SkewedStore(clock)
    async with penstock.open(store=store, services=Services(clock=clock)) as queue:
        await queue.enqueue("work")
        [job] = await queue.claim(lease_seconds=600)
        async with queue.keep_alive(job, lease_seconds=600):
            await clock.advance(290)
            store.ahead_seconds = 60.0
            await clock.advance(300)
            store.ahead_seconds = 0.0
            await clock.advance(600)
        await queue.ack(job)


async def test_a_block_whose_lease_can_not_be_extended_for_a_wrong_clock_is_stopped(
    clock: FakeClock,
) -> None:
    store = SkewedStore(clock)
    async with penstock.open(store=store, services=Services(clock=clock)) as queue:
        await queue.enqueue("work")
        [job] = await queue.claim(lease_seconds=600)

        async def hold() -> None:
            async with queue.keep_alive(job, lease_seconds=600):
                await asyncio.Event().wait()

        holding = asyncio.ensure_future(hold())
        await clock.advance(290)
        store.ahead_seconds = 60.0
        await until_time_passes(clock, holding.done)
        with pytest.raises(LeaseLost):
            await holding


async def test_results_that_wait_to_be_acked_keep_their_lease(
    app: penstock.App, clock: FakeClock
) -> None:
    store, attempts = Refusing(MemoryStore(now=clock.now)), list[int]()
    app.relocate(
        None, store=store, services=Services(clock=clock), offload=True, payload_bytes_max=1_000
    )

    @app.task
    async def work() -> str:
        attempts.append(penstock.current_job().attempt)
        return "x" * 5_000

    async with app:
        kit = Kit(app, await app.queue(), clock)
        receipt = await work.enqueue()
        store.is_refusing = True
        async with at_work(kit) as worker:
            await until(lambda: bool(attempts))
            await clock.advance(200)
            assert (await found(kit, receipt.id)).state is State.RUNNING
            store.is_refusing = False
            await until_time_passes(clock, lambda: worker.counters.completed == 1)
        assert (await found(kit, receipt.id)).failures == 0
    assert attempts == [1]


async def test_a_claim_that_fails_does_not_take_its_siblings_jobs_along(
    app: penstock.App, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker with tasks for processes claims twice at once."""
    app.relocate(None, store=MemoryStore(now=clock.now), services=Services(clock=clock))

    @app.task
    async def work() -> None: ...

    app.task(cpu=True)(heavy)
    async with app:
        kit = Kit(app, await app.queue(), clock)
        await work.enqueue()
        claim, failed = kit.queue.claim, asyncio.Event()

        async def failing(*arguments: object, **named: object) -> list[penstock.Job]:
            if "heavy" in (named["types"] or ()) and not failed.is_set():  # type: ignore[operator]
                failed.set()
                raise StoreUnavailable("memory", "", "not now")
            jobs: list[penstock.Job] = await claim(*arguments, **named)  # type: ignore[call-overload]
            return jobs

        monkeypatch.setattr(kit.queue, "claim", failing)
        options = WorkerOptions(processes=1, concurrency=4)
        async with at_work(kit, processes=options.processes, concurrency=4) as worker:
            await until(lambda: worker.counters.completed == 1)
            assert failed.is_set()
        [job] = await kit.jobs()
        assert (job.state, job.attempt) == (State.COMPLETED, 1)


def heavy() -> None: ...
