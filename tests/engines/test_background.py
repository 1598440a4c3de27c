"""Background work outlives errors that nobody foresaw, and says what they were."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.client.queue import Queue
from penstock.engines.ledger.journal import Head
from penstock.engines.ledger.log import checkpoints
from penstock.engines.ledger.log.checkpoints import Checkpointer
from penstock.engines.ledger.stored import StoredJournal
from penstock.kernel.stamps import THE_BEGINNING
from penstock.kernel.state import QueueState
from penstock.maintenance.monitor import Monitor
from penstock.runtime import tasks
from penstock.runtime.services import Services
from penstock.stores.memory import MemoryStore
from penstock.testing.conformance.backend.steps import HANG_SECONDS, claimed


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "AGAIN_SECONDS", 0.0)


def said(caplog: pytest.LogCaptureFixture, words: str) -> bool:
    return any(words in record.getMessage() for record in caplog.records)


async def test_a_follower_that_breaks_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    changed, broken = StoredJournal.changed, asyncio.Event()

    async def break_once(self: StoredJournal, timeout_seconds: float) -> None:
        if not broken.is_set():
            broken.set()
            raise KeyError("unforeseen")
        await changed(self, timeout_seconds)

    monkeypatch.setattr(StoredJournal, "changed", break_once)
    url = f"file://{tmp_path}"
    async with penstock.open(url) as queue, penstock.open(url) as other:
        async with asyncio.timeout(HANG_SECONDS), asyncio.TaskGroup() as group:
            claim = group.create_task(queue.claim(wait_seconds=60.0))
            await broken.wait()
            await other.enqueue("work", "news")
        assert [job.payload for job in claim.result()] == ["news"]
    assert said(caplog, "following failed")


async def test_a_listener_that_breaks_harms_no_commit(caplog: pytest.LogCaptureFixture) -> None:
    def break_down(cancelled: Any) -> None:
        raise ZeroDivisionError

    async with penstock.open("memory://") as queue:
        job = await claimed(queue)
        with queue.watch_cancelled(break_down):
            assert await queue.cancel(job.id) == "cancelled"
        assert (await queue.enqueue("work")).status == "queued"
    assert said(caplog, "a listener failed")


async def test_a_checkpoint_that_breaks_is_said_and_another_can_begin(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def break_down(*arguments: Any) -> bytes:
        raise KeyError("unforeseen")

    checkpointer = Checkpointer(MemoryStore(), Services())
    head = Head(1, THE_BEGINNING, "")
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "_encode", break_down)
        checkpointer.begin(QueueState(), head)
        await checkpointer._tasks.finished()
    assert said(caplog, "was not written")
    checkpointer.begin(QueueState(), head)
    await checkpointer._tasks.finished()
    assert checkpointer.newly_stored is not None
    await checkpointer.finish()


async def test_a_duty_of_the_monitor_that_breaks_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def break_down(self: Queue) -> Any:
        raise KeyError("unforeseen")

    vacuumed: list[bool] = []
    vacuum = Queue.vacuum

    async def note(self: Queue) -> Any:
        vacuumed.append(True)
        return await vacuum(self)

    monkeypatch.setattr(Queue, "expire", break_down)
    monkeypatch.setattr(Queue, "vacuum", note)
    async with penstock.open("memory://") as queue:
        assert await Monitor(queue, "m").round()
    assert vacuumed
    assert said(caplog, "expiry failed")


async def test_a_block_whose_heartbeats_break_hears_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with penstock.open("memory://") as queue:
        job = await claimed(queue)

        async def break_down(*arguments: Any, **options: Any) -> float:
            raise ZeroDivisionError

        monkeypatch.setattr(queue, "heartbeat", break_down)
        with pytest.raises(ZeroDivisionError):
            async with queue.keep_alive(job, lease_seconds=0.01), asyncio.timeout(HANG_SECONDS):
                await asyncio.Event().wait()
