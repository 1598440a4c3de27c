"""Handlers whose children call `sys.exit()` or raise `KeyboardInterrupt`: they alone end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.kernel.job import State
from penstock.testing.kit import Kit
from tests.worker.working import HANG_SECONDS, at_work, found, until

EXITS = pytest.mark.parametrize(
    "exit", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "ctrl-c"]
)


async def gathered(work: Callable[[], Any]) -> None:
    await asyncio.gather(work())


async def grouped(work: Callable[[], Any]) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(work())


async def waited_for(work: Callable[[], Any]) -> None:
    await asyncio.wait_for(work(), HANG_SECONDS)


async def started_by_a_child(work: Callable[[], Any]) -> None:
    await asyncio.gather(gathered(work))


async def started_by_a_callback(work: Callable[[], Any]) -> None:
    started: asyncio.Future[asyncio.Task[Any]] = asyncio.get_running_loop().create_future()
    loop = asyncio.get_running_loop()
    loop.call_soon(lambda: started.set_result(loop.create_task(work())))
    await (await started)


WAYS = pytest.mark.parametrize(
    "way", [gathered, grouped, waited_for, started_by_a_child, started_by_a_callback]
)


@EXITS
@WAYS
async def test_a_handler_whose_child_exits_fails_its_attempt_and_the_worker_goes_on(
    app: penstock.App, kit: Kit, way: Callable[[Any], Awaitable[None]], exit: BaseException
) -> None:
    async def child() -> None:
        raise exit

    @app.task(max_attempts=1)
    async def work() -> None:
        await way(child)

    @app.task
    async def fine() -> None: ...

    bad, good = await work.enqueue(), await fine.enqueue()
    counters = await kit.drain()
    assert (counters.failed, counters.completed) == (1, 1)
    job = await found(kit, bad.id)
    assert (job.state, job.errors[0].kind) == (State.FAILED, "exit")
    assert (await found(kit, good.id)).state is State.COMPLETED


async def test_the_message_says_with_what_the_child_exited(app: penstock.App, kit: Kit) -> None:
    async def child() -> None:
        sys.exit(3)

    @app.task(max_attempts=1)
    async def work() -> None:
        await asyncio.gather(child())

    receipt = await work.enqueue()
    await kit.drain()
    assert (await found(kit, receipt.id)).errors[0].message == (
        "ChildExited: a task that it had started raised SystemExit: 3"
    )


async def test_a_child_of_middleware_that_exits_fails_the_attempt_alone(
    app: penstock.App, kit: Kit
) -> None:
    async def child() -> None:
        sys.exit(3)

    @app.around_job
    async def checked(context: penstock.JobContext, proceed: Callable[[], Awaitable[Any]]) -> Any:
        await asyncio.gather(child())
        return await proceed()

    @app.task(max_attempts=1)
    async def work() -> None: ...

    receipt = await work.enqueue()
    assert (await kit.drain()).failed == 1
    assert (await found(kit, receipt.id)).errors[0].kind == "exit"


async def test_a_child_that_nobody_waits_for_exits_alone(app: penstock.App, kit: Kit) -> None:
    children: list[asyncio.Task[None]] = []

    async def child() -> None:
        sys.exit(3)

    @app.task
    async def work() -> str:
        children.append(asyncio.create_task(child()))
        return "done"

    receipt = await work.enqueue()
    async with at_work(kit) as worker:
        await until(lambda: worker.counters.completed == 1 and children[0].done())
    assert (await found(kit, receipt.id)).result == "done"
    assert isinstance(children[0].exception(), penstock.errors.ChildExited)


async def test_what_is_started_outside_of_handlers_is_left_as_it_is(
    app: penstock.App, kit: Kit
) -> None:
    @app.task
    async def work() -> None: ...

    async def other() -> None: ...

    async with at_work(kit):
        work_of_others = other()
        task = asyncio.create_task(work_of_others)
        assert task.get_coro() is work_of_others
        await task


@pytest.mark.parametrize("address", ["memory://", "log", "log?layout=tasks", "sqlite"])
def test_a_loop_that_exits_all_the_same_ends_the_worker_at_once_and_loudly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, address: str
) -> None:
    if address == "sqlite":
        address = f"sqlite:///{tmp_path}/queue.db"
    elif address != "memory://":
        address = f"{tmp_path}/{address}"
    app = penstock.App(address)
    took: list[float] = []

    @app.task
    async def work() -> None:
        loop = asyncio.get_running_loop()
        took.append(loop.time())
        loop.call_soon(sys.exit, 3)
        await asyncio.Event().wait()

    async def main() -> None:
        try:
            async with app, penstock.Worker(app):
                await work.enqueue()
                await asyncio.Event().wait()
        finally:
            took.append(asyncio.get_running_loop().time())

    with pytest.raises(SystemExit):
        asyncio.run(main())
    assert took[1] - took[0] < 30
    assert "the event loop is taken down around the worker" in caplog.text
