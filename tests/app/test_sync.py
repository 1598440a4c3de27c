"""Tasks in code without an event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import penstock
from penstock.errors import InvalidInput
from penstock.testing.kit import Kit


def adding() -> tuple[penstock.App, penstock.app.task.Task[[int, int], int]]:
    app = penstock.App("memory://")

    @app.task
    async def add(left: int, right: int) -> int:
        return left + right

    return app, add


@contextmanager
def working(app: penstock.App) -> Iterator[None]:
    """A worker in the app's own loop, as `penstock worker` would run it."""
    worker = penstock.Worker(app, penstock.WorkerOptions(grace_seconds=0))
    thread = threading.Thread(target=lambda: app.wait(worker.run()))
    thread.start()
    try:
        yield
    finally:
        app.wait(_stop(worker))
        thread.join()


async def _stop(worker: penstock.Worker) -> None:
    worker.stop()


def test_a_script_enqueues_and_calls() -> None:
    app, add = adding()
    with app:
        receipt = add.options(priority=5).enqueue_sync(1, 2)
        with working(app):
            assert add.call_sync(3, right=4) == 7
        job = app.wait(_got(app, receipt.id))
        assert job is not None
        assert (job.priority, job.result) == (5, 3)


def test_without_a_with_block_the_first_call_opens_the_queue() -> None:
    app, add = adding()
    assert add.enqueue_sync(1, 2).status == "queued"
    assert [type(receipt) for receipt in app.wait(app.enqueue_many([add.job(1, 2)]))] == [
        penstock.Receipt
    ]
    app.close_sync()
    app.close_sync()


def test_many_threads_share_one_queue() -> None:
    app, add = adding()
    with app:
        threads = [threading.Thread(target=add.enqueue_sync, args=(n, n)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert app.wait(_totals(app))["pending"] == 8


async def test_a_plain_task_enqueues_others_through_its_workers_loop(
    app: penstock.App, kit: Kit
) -> None:
    @app.task
    def second(number: int) -> int:
        return number

    @app.task
    def first(number: int) -> str:
        return second.enqueue_sync(number + 1).status

    await first.enqueue(1)
    assert (await kit.drain()).completed == 2
    assert [job.result for job in await kit.jobs()] == ["queued", 2]


async def test_inside_an_event_loop_the_sync_way_is_refused_instead_of_blocking(
    app: penstock.App, kit: Kit
) -> None:
    @app.task
    async def work() -> None: ...

    with pytest.raises(InvalidInput, match="await the async twin"):
        work.enqueue_sync()
    await kit.assert_nothing_enqueued()


def test_an_app_follows_from_one_finished_loop_to_the_next(tmp_path: Path) -> None:
    app = penstock.App(f"file://{tmp_path}/queue?fsync=off")

    @app.task
    async def work() -> None: ...

    assert asyncio.run(work.enqueue()).status == "queued"
    assert asyncio.run(work.enqueue()).status == "queued"


def test_an_app_cannot_be_in_two_running_loops_at_once() -> None:
    app, add = adding()
    with app, pytest.raises(InvalidInput, match="open in another event loop"):
        asyncio.run(add.enqueue(1, 2))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_of_the_process_opens_the_queue_for_itself(tmp_path: Path) -> None:
    app = penstock.App(f"file://{tmp_path}/queue?fsync=off")

    @app.task
    async def work() -> None: ...

    with app:
        work.enqueue_sync()
        child = os.fork()
        if child == 0:
            os._exit(0 if work.enqueue_sync().status == "queued" else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert app.wait(_totals(app))["pending"] == 2


async def _totals(app: penstock.App) -> dict[str, int]:
    return (await (await app.queue()).stats()).totals


async def _got(app: penstock.App, id: str) -> penstock.Job | None:
    return await (await app.queue()).get(id)
