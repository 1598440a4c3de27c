"""Hooks: what an app is told of its jobs, in the process that ran them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import penstock
from penstock.errors import LeaseLost
from penstock.kernel.job import State
from penstock.testing.clock import turns
from penstock.testing.kit import Kit
from tests.worker.working import at_work


async def test_start_hooks_fill_the_state_that_handlers_share(app: penstock.App, kit: Kit) -> None:
    @app.on_start
    async def connect(app: penstock.App) -> None:
        app.state.greeting = "hello"

    @app.on_stop
    def disconnect(app: penstock.App) -> None:
        del app.state.greeting

    @app.task
    async def greet(context: penstock.JobContext, name: str) -> str:
        return f"{context.state.greeting}, {name}"

    await greet.enqueue("Ada")
    await kit.drain()
    assert [job.result for job in await kit.jobs()] == ["hello, Ada"]
    assert not hasattr(app.state, "greeting")


async def test_where_a_start_hook_fails_no_job_is_touched(app: penstock.App, kit: Kit) -> None:
    @app.on_start
    def connect(app: penstock.App) -> None:
        raise ConnectionError("no database")

    @app.task
    async def work() -> None: ...

    await work.enqueue()
    with pytest.raises(ConnectionError, match="no database"):
        await kit.drain()
    assert (await kit.assert_enqueued(work)).attempt == 0


async def test_hooks_hear_of_what_completed_and_what_failed(app: penstock.App, kit: Kit) -> None:
    heard: list[Any] = []

    @app.on_completed
    def completed(job: penstock.Job, result: Any) -> None:
        heard.append((job.type, result))

    @app.on_failed
    async def failed(job: penstock.Job, error: BaseException) -> None:
        await turns()
        heard.append((job.type, str(error)))

    @app.task
    async def good() -> int:
        return 1

    @app.task(max_attempts=1)
    async def bad() -> None:
        raise ValueError("no")

    await good.enqueue()
    await bad.enqueue()
    await kit.drain()
    assert heard == [("good", 1), ("bad", "no")]


async def test_a_hook_hears_of_a_job_that_was_taken_away(app: penstock.App, kit: Kit) -> None:
    heard: list[str] = []
    app.on_stalled(lambda job: heard.append(job.id))

    @app.task
    async def for_ever() -> None:
        await asyncio.Event().wait()

    receipt = await for_ever.enqueue()
    async with at_work(kit) as worker:
        await worker.until_running(1)
        await kit.queue.cancel(receipt.id)
        await kit.clock.advance(10)
        await worker.until_running(0)
    assert heard == [receipt.id]


async def test_a_hook_that_fails_harms_nobody(
    app: penstock.App, kit: Kit, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    @app.on_completed
    def fail(job: penstock.Job, result: Any) -> None:
        raise ZeroDivisionError

    @app.on_completed
    async def fail_later(job: penstock.Job, result: Any) -> None:
        raise LeaseLost(job.id)

    app.on_completed(lambda job, result: heard.append(job.id))
    app.on_stop(lambda app: 1 / 0)
    app.on_stop(lambda app: heard.append("stopped"))

    @app.task
    async def work() -> None: ...

    receipts = [await work.enqueue(), await work.enqueue()]
    assert (await kit.drain()).completed == 2
    assert heard == [*(receipt.id for receipt in receipts), "stopped"]
    assert [job.state for job in await kit.jobs()] == [State.COMPLETED] * 2
    assert sum("a hook failed" in record.message for record in caplog.records) == 5


async def test_the_last_hook_is_heard_out_before_the_worker_ends(
    app: penstock.App, kit: Kit
) -> None:
    heard: list[Any] = []

    @app.on_completed
    async def slow(job: penstock.Job, result: Any) -> None:
        await turns(200)
        heard.append(result)

    @app.task
    async def work() -> int:
        return 1

    await work.enqueue()
    await kit.drain()
    assert heard == [1]
