"""Heartbeats keep what runs, together, and carry its progress."""

from __future__ import annotations

import asyncio
import threading

import penstock
from penstock.kernel.job import State
from penstock.testing.kit import Kit
from tests.worker.working import at_work, found, until


async def events(kit: Kit) -> list[str]:
    return [event.event async for event in kit.queue.events("beginning", follow=False)]


async def test_a_long_job_is_kept_for_as_long_as_it_runs(app: penstock.App, kit: Kit) -> None:
    gate = asyncio.Event()

    @app.task(timeout_seconds=3_600)
    async def long() -> None:
        await gate.wait()

    receipt = await long.enqueue()
    async with at_work(kit) as worker:
        await worker.until_running(1)
        await kit.clock.advance(600)
        assert await kit.queue.expire() == 0
        job = await found(kit, receipt.id)
        assert (job.state, job.attempt) == (State.RUNNING, 1)
        gate.set()
        await until(lambda: worker.counters.completed == 1)
    assert (await found(kit, receipt.id)).failures == 0


async def test_the_heartbeats_of_all_jobs_are_one_commit(app: penstock.App, kit: Kit) -> None:
    gate = asyncio.Event()

    @app.task
    async def wait(context: penstock.JobContext, number: int) -> None:
        if number % 2:
            context.progress(number / 50)
        await gate.wait()

    await app.enqueue_many(wait.job(n) for n in range(50))
    async with at_work(kit) as worker:
        await worker.until_running(50)
        before = (await kit.queue.stats()).commit
        await kit.clock.advance(1)
        assert (await kit.queue.stats()).commit == before + 1, "all progress"
        before += 1
        await kit.clock.advance(9)
        assert (await kit.queue.stats()).commit == before + 1
        gate.set()
        await until(lambda: worker.counters.completed == 50)


async def test_progress_reaches_readers_within_a_second(app: penstock.App, kit: Kit) -> None:
    gates = [asyncio.Event(), asyncio.Event()]

    @app.task
    async def work(context: penstock.JobContext) -> None:
        context.progress(0.25)
        context.progress(0.5, "resizing")
        await gates[0].wait()
        context.progress(1)
        await gates[1].wait()

    receipt = await work.enqueue()
    async with at_work(kit) as worker:
        await worker.until_running(1)
        assert (await found(kit, receipt.id)).progress is None
        await kit.clock.advance(1)
        job = await found(kit, receipt.id)
        assert (job.progress, job.progress_message) == (0.5, "resizing")
        gates[0].set()
        await kit.clock.advance(1)
        assert (await found(kit, receipt.id)).progress == 1.0
        gates[1].set()
        await until(lambda: worker.counters.completed == 1)
    assert (await events(kit)).count("progressed") == 2


async def test_what_was_told_once_is_not_told_again(app: penstock.App, kit: Kit) -> None:
    @app.task
    async def work(context: penstock.JobContext) -> None:
        context.progress(0.5)
        await asyncio.Event().wait()

    await work.enqueue()
    async with at_work(kit) as worker:
        await worker.until_running(1)
        await kit.clock.advance(60)
    assert (await events(kit)).count("progressed") == 1
    assert (await events(kit)).count("extended") == 6


async def test_the_last_progress_is_kept_at_the_end(app: penstock.App, kit: Kit) -> None:
    @app.task
    async def work(context: penstock.JobContext) -> None:
        context.progress(0.25)
        context.progress(0.75, "packing")

    receipt = await work.enqueue()
    await kit.drain()
    job = await found(kit, receipt.id)
    assert (job.state, job.progress, job.progress_message) == (State.COMPLETED, 0.75, "packing")
    assert (await events(kit)).count("progressed") == 1


async def test_a_handler_in_a_thread_tells_its_progress_too(
    app: penstock.App, kit: Kit, gate: threading.Event
) -> None:
    said = threading.Event()

    @app.task
    def work(context: penstock.JobContext) -> None:
        context.progress(0.5, "half")
        said.set()
        gate.wait()

    receipt = await work.enqueue()
    async with at_work(kit) as worker:
        await worker.until_running(1)
        await until(said.is_set)
        await kit.clock.advance(2)
        assert (await found(kit, receipt.id)).progress_message == "half"
        gate.set()
        await until(lambda: worker.counters.completed == 1)
