"""Stopping: no more claims, some time to finish, and the rest goes back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

import penstock
from penstock.errors import HookFailed
from penstock.kernel.job import State
from penstock.testing.kit import Kit
from penstock.worker import worker as worker_module
from penstock.worker.options import WorkerOptions
from penstock.worker.worker import Worker
from tests.worker.working import HANG_SECONDS, at_work, found, until, watched


async def test_what_runs_may_finish_within_the_grace_and_nothing_new_begins(
    app: penstock.App, kit: Kit
) -> None:
    gate = asyncio.Event()

    @app.task
    async def wait() -> str:
        await gate.wait()
        return "finished"

    running = await wait.enqueue()
    async with at_work(kit, grace_seconds=600) as worker:
        await worker.until_running(1)
        worker.worker.stop()
        late = await wait.enqueue()
        await kit.clock.advance(60)
        assert not worker.task.done()
        gate.set()
        await worker.task
    assert (await found(kit, running.id)).result == "finished"
    assert (await found(kit, late.id)).attempt == 0


async def test_what_is_left_after_the_grace_goes_back_without_a_failure(
    app: penstock.App, kit: Kit
) -> None:
    cancelled = []

    @app.task
    async def for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)

    receipt = await for_ever.enqueue()
    async with at_work(kit, grace_seconds=0.01) as worker:
        await worker.until_running(1)
        await worker.stop()
    job = await found(kit, receipt.id)
    assert (job.state, job.failures, job.attempt) == (State.PENDING, 0, 1)
    assert job.run_at <= kit.clock.now()
    assert cancelled
    assert worker.counters.given_back == 1


async def test_a_second_stop_gives_everything_back_at_once(
    app: penstock.App, kit: Kit, gate: threading.Event
) -> None:
    @app.task
    async def for_ever() -> None:
        await asyncio.Event().wait()

    @app.task
    def until_told(context: penstock.JobContext) -> None:
        while not context.is_cancelled and not gate.is_set():
            pass

    receipts = [await for_ever.enqueue(), await until_told.enqueue()]
    async with at_work(kit, grace_seconds=3_600) as worker:
        await worker.until_running(2)
        worker.worker.stop()
        await kit.clock.advance(1)
        assert not worker.task.done()
        await worker.stop()
    for receipt in receipts:
        job = await found(kit, receipt.id)
        assert (job.state, job.failures) == (State.PENDING, 0)


async def test_a_worker_that_is_cancelled_gives_everything_back(
    app: penstock.App, kit: Kit
) -> None:
    stopped = []
    app.on_stop(lambda app: stopped.append(True))

    @app.task
    async def for_ever() -> None:
        await asyncio.Event().wait()

    receipt = await for_ever.enqueue()
    worker = penstock.Worker(app, penstock.WorkerOptions(grace_seconds=3_600))
    working = asyncio.ensure_future(worker.run())
    await until(lambda: worker.running == [receipt.id])
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    job = await found(kit, receipt.id)
    assert (job.state, job.failures) == (State.PENDING, 0)
    assert stopped


async def test_the_job_of_a_handler_that_ignores_cancellation_goes_back_all_the_same(
    app: penstock.App,
    kit: Kit,
    new_gate: Callable[[], asyncio.Event],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(worker_module, "STOP_SECONDS_MAX", 0.01)
    gate = new_gate()

    @app.task
    async def stubborn() -> None:
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue

    receipt = await stubborn.enqueue()
    async with at_work(kit) as worker:
        await worker.until_running(1)
        await worker.stop()
        assert worker.worker.left_behind == 1
    job = await found(kit, receipt.id)
    assert (job.state, job.failures) == (State.PENDING, 0)
    assert f"handlers ignore cancellation: {receipt.id}" in caplog.text
    gate.set()
    await until(lambda: worker.worker.left_behind == 0)


async def test_a_burst_ends_when_nothing_is_due(app: penstock.App, kit: Kit) -> None:
    @app.task
    async def work() -> None: ...

    due, later = await work.enqueue(), await work.options(delay_seconds=60).enqueue()
    async with at_work(kit, burst=True) as worker:
        await worker.task
    assert (await found(kit, due.id)).state is State.COMPLETED
    assert (await found(kit, later.id)).state is State.PENDING


async def test_a_burst_does_what_its_jobs_enqueue_even_while_they_wait_for_it(
    app: penstock.App,
) -> None:
    @app.task
    async def inner(number: int) -> int:
        return number + 1

    @app.task
    async def outer(number: int) -> int:
        await inner.enqueue(100)
        return 2 * await inner.call(number)

    # Without the kit, whose calls run the job themselves.
    options = WorkerOptions(burst=True, monitor=False)
    with app.rebound("memory://"):
        async with app, asyncio.timeout(HANG_SECONDS):
            receipt = await outer.enqueue(20)
            async with watched(Worker(app, options)) as worker:
                await worker.task
            job = await app.get(receipt.id)
    assert job is not None
    assert (job.result, worker.counters.completed) == (42, 3)


async def test_a_worker_may_end_after_so_many_jobs(app: penstock.App, kit: Kit) -> None:
    @app.task
    async def work() -> None: ...

    await app.enqueue_many(work.job() for _ in range(10))
    async with at_work(kit, jobs_max=7, concurrency=4, grace_seconds=5) as worker:
        await worker.task
    assert (worker.counters.claimed, worker.counters.completed) == (7, 7)
    assert len(await kit.jobs(state="pending")) == 3


async def test_a_worker_takes_from_its_own_queues_only(app: penstock.App, kit: Kit) -> None:
    @app.task
    async def work() -> None: ...

    for queue in ("mail", "images", "other"):
        await work.options(queue=queue).enqueue()
    async with at_work(kit, burst=True, queues=("mail", "images")) as worker:
        await worker.task
    assert [job.queue for job in await kit.jobs(state="pending")] == ["other"]


async def test_a_part_of_the_worker_that_breaks_ends_it_and_its_jobs_go_back(
    app: penstock.App, kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def break_down(*arguments: object, **named: object) -> list[float]:
        raise ZeroDivisionError("a heart that fails")

    @app.task
    async def for_ever() -> None:
        await asyncio.Event().wait()

    receipt = await for_ever.enqueue()
    worker = penstock.Worker(
        app,
        penstock.WorkerOptions(grace_seconds=0, lease_seconds=0.3, monitor=False),
    )
    monkeypatch.setattr(kit.queue, "heartbeat", break_down)
    with pytest.raises(ZeroDivisionError, match="a heart that fails"):
        await worker.run()
    job = await found(kit, receipt.id)
    assert (job.state, job.failures) == (State.PENDING, 0)


async def test_a_worker_beside_a_block_drains_when_the_block_ends(
    app: penstock.App, kit: Kit
) -> None:
    @app.task
    async def double(number: int) -> int:
        return 2 * number

    async with penstock.Worker(app) as worker:
        assert await double.call(21) == 42
        receipt = await double.enqueue(4)
        await until(lambda: worker.counters.claimed == 2)
    assert (await found(kit, receipt.id)).result == 8


async def test_when_the_block_fails_the_worker_beside_it_gives_back_at_once(
    app: penstock.App, kit: Kit
) -> None:
    @app.task
    async def for_ever() -> None:
        await asyncio.Event().wait()

    receipt = await for_ever.enqueue()
    worker = penstock.Worker(app, penstock.WorkerOptions(grace_seconds=3_600))

    async def fail() -> None:
        async with worker:
            await until(lambda: worker.running == [receipt.id])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    job = await found(kit, receipt.id)
    assert (job.state, job.failures) == (State.PENDING, 0)


async def test_a_worker_that_cannot_start_keeps_the_block_from_running(
    app: penstock.App, kit: Kit
) -> None:
    app.task(name="work")(lambda: None)
    app.on_start(lambda app: 1 / 0)
    worker, ran = penstock.Worker(app), []

    async def block() -> None:
        async with worker:
            ran.append(True)

    with pytest.raises(HookFailed):
        await block()
    assert not ran
