"""Whoever still has a moved queue open is told where it is, and can do no harm there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import penstock
from penstock.errors import Moved, NewerFormat
from penstock.kernel.commands import BeginFilling, EndFilling, MoveQueue
from penstock.kernel.events import SYSTEM_TENANT
from penstock.kernel.job import State
from penstock.kernel.settings import DEFAULT_SETTINGS
from penstock.maintenance.monitor import Monitor
from penstock.wire import level
from penstock.worker.options import WorkerOptions
from penstock.worker.worker import Worker
from tests.migration.ends import address, end_at, migrate, opened
from tests.worker.working import until

KINDS = ("log", "single", "sqlite", "tasks")


def an_app(url: str, ran: list[tuple[str, str]], held: asyncio.Event | None = None) -> penstock.App:
    app = penstock.App(url)

    @app.task
    async def work(name: str) -> None:
        ran.append((url, name))
        if held is not None and name == "held":
            await held.wait()

    return app


async def work_off(app: penstock.App) -> None:
    try:
        await Worker(app, WorkerOptions(burst=True, monitor=False)).run()
    finally:
        await app.close()


@pytest.mark.parametrize("here", KINDS)
async def test_a_worker_at_the_source_stops_and_says_where_the_queue_is(
    here: str, tmp_path: Path
) -> None:
    source, target = address(here, tmp_path, "a"), address("sqlite", tmp_path, "b")
    ran: list[tuple[str, str]] = []
    never = asyncio.Event()
    app = an_app(source, ran, never)
    await app.tasks["work"].enqueue(name="held")
    options = WorkerOptions(monitor=False, lease_seconds=3, grace_seconds=30)
    worker = Worker(app, options)
    running = asyncio.ensure_future(worker.run())
    await until(lambda: ran == [(source, "held")])
    await app.tasks["work"].options(delay_seconds=0.001).enqueue(name="waits")
    await migrate(source, target)
    with pytest.raises(Moved, match=target.partition("?")[0]):
        await running
    assert worker.running == []
    await app.close()


async def test_after_a_move_everything_runs_once_and_at_the_target(tmp_path: Path) -> None:
    source, target = address("log", tmp_path, "a"), address("sqlite", tmp_path, "b")
    ran: list[tuple[str, str]] = []
    old = an_app(source, ran)
    names = [f"job {n}" for n in range(20)]
    for name in names:
        await old.tasks["work"].enqueue(name=name)
    await migrate(source, target)
    with pytest.raises(Moved):
        await work_off(an_app(source, ran))
    with pytest.raises(Moved):
        await old.tasks["work"].enqueue(name="late")
    await old.close()
    await work_off(an_app(target, ran))
    assert ran == [(target, name) for name in names]


async def test_a_worker_waits_for_a_queue_that_is_being_filled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = address("log", tmp_path, "b")
    ran: list[tuple[str, str]] = []
    app = an_app(target, ran)
    await app.tasks["work"].enqueue(name="own")
    async with end_at(target) as end:
        await end.backend.execute(BeginFilling(SYSTEM_TENANT, "m", "s3://source", 0.0))
        worker = Worker(app, WorkerOptions(monitor=False))
        running = asyncio.ensure_future(worker.run())
        await until(lambda: "being filled from s3://source" in caplog.text)
        assert ran == []
        opening = EndFilling(SYSTEM_TENANT, "m", 0, "", 0, DEFAULT_SETTINGS, {}, {}, (), {})
        await end.backend.execute(opening)
        await until(lambda: ran == [(target, "own")])
    worker.stop()
    await running
    await app.close()


@pytest.mark.parametrize("here", ["log", "single", "sqlite"])
async def test_code_from_before_moves_were_known_is_refused(
    here: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = address(here, tmp_path, "a")
    async with opened(source) as queue:
        await queue.enqueue("work")
    monkeypatch.setattr(level, "FORMAT_LEVEL", 2)
    async with opened(source) as old:
        assert len(await old.claim()) == 1
        monkeypatch.undo()
        async with end_at(source) as end:
            await end.backend.execute(MoveQueue(SYSTEM_TENANT, "m", "s3://target"))
        monkeypatch.setattr(level, "FORMAT_LEVEL", 2)
        with pytest.raises(NewerFormat):
            await old.enqueue("work")
    with pytest.raises(NewerFormat):
        async with opened(source):
            raise AssertionError("it was opened")


async def test_a_body_that_is_kept_alive_ends_when_the_queue_moves(tmp_path: Path) -> None:
    source = address("log", tmp_path, "a")
    async with opened(source) as queue:
        await queue.enqueue("work")
        [job] = await queue.claim(lease_seconds=1)
        async with end_at(source) as end:
            await end.backend.execute(MoveQueue(SYSTEM_TENANT, "m", "s3://target"))
        with pytest.raises(Moved, match="s3://target"):
            async with queue.keep_alive(job, lease_seconds=1):
                await asyncio.Event().wait()


async def test_a_monitor_of_a_moved_queue_ends(tmp_path: Path) -> None:
    source = address("log", tmp_path, "a")
    async with opened(source) as queue:
        await queue.enqueue("work", id="a")
        async with end_at(source) as end:
            await end.backend.execute(MoveQueue(SYSTEM_TENANT, "m", "s3://target"))
        with pytest.raises(Moved):
            await Monitor(queue, "m1").round()
        job = await queue.get("a")
        assert job is not None
        assert job.state is State.PENDING
