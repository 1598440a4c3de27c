"""Handlers that hold a worker up: threads that can't be stopped, and loops that are blocked."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

import penstock
from penstock.testing.kit import Kit
from tests.worker.working import at_work, until


async def test_a_thread_that_outlives_its_time_limit_shows_as_busy_and_is_warned_about(
    app: penstock.App, kit: Kit, gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(timeout_seconds=0.05, max_attempts=1)
    def stubborn() -> None:
        gate.wait()

    receipt = await stubborn.enqueue()
    async with at_work(kit, concurrency=3) as worker:
        await until(lambda: worker.counters.failed == 1)
        assert worker.worker.running == []
        await kit.clock.advance(10)
        [record] = await kit.queue.workers()
        assert (record.busy, record.running) == (1, [])
        gate.set()
        await until(lambda: worker.worker.left_behind == 0)
    [warning] = [one for one in caplog.records if "a thread goes on" in one.getMessage()]
    assert (warning.levelname, vars(warning)["job"]) == ("WARNING", receipt.id)
    assert "1 of 3 places" in warning.getMessage()


async def test_past_a_limit_of_such_threads_the_worker_drains_to_start_again(
    app: penstock.App, kit: Kit, gate: threading.Event
) -> None:
    @app.task(timeout_seconds=0.05, max_attempts=1)
    def stubborn() -> None:
        gate.wait()

    await app.enqueue_many([stubborn.job(), stubborn.job()])
    async with at_work(kit, recycle=2) as worker:
        async with asyncio.timeout(20):
            await worker.task
        assert worker.worker.wants_restart
        assert worker.counters.failed == 2


async def test_a_handler_that_blocks_the_loop_is_named(app: penstock.App, kit: Kit) -> None:
    heard = threading.Event()
    said: list[logging.LogRecord] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "has blocked the event loop" in record.getMessage():
                said.append(record)
                heard.set()

    @app.task
    async def greedy() -> None:
        assert heard.wait(20), "nobody noticed"

    listener, logger = Listener(), logging.getLogger("penstock")
    logger.addHandler(listener)
    try:
        receipt = await greedy.enqueue()
        assert (await kit.drain()).completed == 1
    finally:
        logger.removeHandler(listener)
    assert vars(said[0])["job"] == receipt.id
    assert "in wait" in said[0].getMessage()
