"""Tasks in code without an event loop."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import penstock
from penstock.errors import Forked, InvalidInput
from penstock.testing.kit import Kit


def adding() -> tuple[penstock.App, penstock.Task[[int, int], int]]:
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
            assert add.call_sync(3, right=4) == 7  # type: ignore[call-arg]
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


URLS = ["memory://", "file://{}/queue?fsync=off", "sqlite:///{}/queue.db"]


@pytest.fixture(params=URLS, ids=["memory", "folder", "sqlite"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[penstock.App]:
    """An app for sync and async calls; its task is `work`."""
    app = penstock.App(request.param.format(tmp_path))
    app.task(name="work")(_work)
    yield app
    app.close_sync()


async def _work() -> None: ...


def test_async_calls_follow_sync_ones(both: penstock.App) -> None:
    both.tasks["work"].enqueue_sync()
    assert asyncio.run(_enqueue_and_count(both)) == 2
    both.tasks["work"].enqueue_sync()
    assert asyncio.run(_enqueue_and_count(both)) == 4
    assert both.wait(_totals(both))["pending"] == 4


def test_sync_calls_follow_async_ones_in_a_loop_that_has_stopped(both: penstock.App) -> None:
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(both.tasks["work"].enqueue())
        both.tasks["work"].enqueue_sync()
        assert loop.run_until_complete(_enqueue_and_count(both)) == 3
        loop.run_until_complete(both.close())
    finally:
        loop.close()


def test_the_first_calls_of_many_threads_come_at_once(both: penstock.App) -> None:
    barrier = threading.Barrier(8)

    def enqueue() -> str:
        barrier.wait()
        return both.tasks["work"].enqueue_sync().status

    with ThreadPoolExecutor(8) as threads:
        calls = [threads.submit(enqueue) for _ in range(8)]
        assert [call.result() for call in calls] == ["queued"] * 8
    assert both.wait(_totals(both))["pending"] == 8
    background = [thread for thread in threading.enumerate() if thread.name == "penstock-app"]
    assert len(background) == 1


def test_sync_and_async_calls_of_many_threads_go_together(both: penstock.App) -> None:
    def enqueue(number: int) -> str:
        if number % 2:
            return both.tasks["work"].enqueue_sync().status
        return asyncio.run(both.tasks["work"].enqueue()).status

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(enqueue, range(24))) == {"queued"}
    assert both.wait(_totals(both))["pending"] == 24


def test_closing_returns_wherever_the_queue_was_opened(both: penstock.App) -> None:
    both.tasks["work"].enqueue_sync()

    async def use() -> None:
        await both.tasks["work"].enqueue()
        await asyncio.to_thread(both.close_sync)
        await both.tasks["work"].enqueue()
        await both.close()

    asyncio.run(use())
    both.close_sync()


def test_a_program_that_forgets_to_close_ends_without_noise(tmp_path: Path) -> None:
    program = """
import sys, penstock
app = penstock.App(sys.argv[1])
@app.task
async def work(): ...
print(work.enqueue_sync().status)
queue = penstock.open_sync(sys.argv[1])
queue.start()
print(len(queue.claim()))
"""
    for url in URLS[1:]:
        ended = subprocess.run(
            [sys.executable, "-W", "always", "-c", program, url.format(tmp_path)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "queued\n1\n", "")


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


def test_a_fork_is_silent_about_what_its_parent_left_under_way(tmp_path: Path) -> None:
    program = """
import gc, os, sys, penstock
app = penstock.App(sys.argv[1])
@app.task
async def work(): ...
work.enqueue_sync()
if os.fork() == 0:
    work.enqueue_sync()
    gc.collect()
else:
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    for url in URLS[1:]:
        ended = subprocess.run(
            [sys.executable, "-c", program, url.format(tmp_path)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_queue_says_so_and_closes_in_peace(tmp_path: Path) -> None:
    with penstock.open_sync(f"file://{tmp_path}/queue?fsync=off") as queue:
        queue.enqueue("work")
        child = os.fork()
        if child == 0:
            os._exit(_exit_code_of_a_fork(queue))
        assert os.waitpid(child, 0)[1] == 0
        assert len(queue.claim()) == 1


def _exit_code_of_a_fork(queue: penstock.BlockingQueue) -> int:
    try:
        queue.enqueue("work")
    except Forked as error:
        queue.close()
        return 0 if "open another" in str(error) else 1
    return 2


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
async def test_a_forked_handle_of_an_event_loop_says_so(tmp_path: Path) -> None:
    async with penstock.open(f"file://{tmp_path}/queue?fsync=off") as queue:
        child = os.fork()
        if child == 0:
            os._exit(_exit_code_of_asking(queue))
        assert (await asyncio.to_thread(os.waitpid, child, 0))[1] == 0
        assert (await queue.enqueue("work")).status == "queued"


def _exit_code_of_asking(queue: penstock.Queue) -> int:
    """In a fork: there is no event loop, so what is asked is only begun."""
    for asked in (queue.enqueue("work"), queue.claim(), queue.stats(), queue.get("x")):
        try:
            asked.send(None)
        except Forked:
            continue
        return 1
    return 0


async def _enqueue_and_count(app: penstock.App) -> int:
    await app.tasks["work"].enqueue()
    return (await _totals(app))["pending"]


async def _totals(app: penstock.App) -> dict[str, int]:
    return (await (await app.queue()).stats()).totals


async def _got(app: penstock.App, id: str) -> penstock.Job | None:
    return await (await app.queue()).get(id)
