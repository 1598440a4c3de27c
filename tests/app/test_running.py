"""Running a task: here and now, and what is around every run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pytest

import penstock
from penstock.errors import InvalidInput, UnknownType
from penstock.kernel.job import State
from penstock.testing.kit import Kit

Proceed = Callable[[], Awaitable[Any]]

language: ContextVar[str] = ContextVar("language", default="none")


async def test_a_task_runs_here_without_a_queue() -> None:
    app = penstock.App("s3://nowhere")

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    @app.task
    def triple(number: int) -> int:
        return 3 * number

    assert await app.execute_now(double, number=21) == 42
    assert await app.execute_now("triple", number=14) == 42


async def test_an_unknown_task_is_named_beside_the_known_ones(app: penstock.App) -> None:
    app.task(name="b")(lambda: None)
    app.task(name="a")(lambda: None)
    with pytest.raises(UnknownType, match="no task 'c'; it has a, b"):
        await app.execute_now("c")


async def test_what_a_task_raises_here_is_raised(app: penstock.App) -> None:
    @app.task
    def stumble() -> None:
        next(iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        await app.execute_now(stumble)


async def test_the_current_job_can_be_asked_for_deep_inside(app: penstock.App, kit: Kit) -> None:
    def deep_inside() -> str:
        return penstock.current_job().id

    @app.task
    async def in_the_loop() -> str:
        return deep_inside()

    @app.task
    def in_a_thread() -> str:
        return deep_inside()

    receipts = [await in_the_loop.enqueue(), await in_a_thread.enqueue()]
    await kit.drain()
    assert [job.result for job in await kit.jobs()] == [receipt.id for receipt in receipts]


def test_outside_of_a_task_there_is_no_current_job() -> None:
    with pytest.raises(LookupError, match="no job is running here"):
        penstock.current_job()


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
async def test_progress_is_a_fraction(app: penstock.App, fraction: float) -> None:
    @app.task
    async def work(context: penstock.JobContext) -> None:
        context.progress(fraction)

    with pytest.raises(InvalidInput, match="number"):
        await app.execute_now(work)


async def test_a_handlers_logger_says_which_job_it_is_about(
    app: penstock.App, kit: Kit, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def work(context: penstock.JobContext) -> None:
        context.logger.warning("half-way")

    receipt = await work.enqueue()
    await kit.drain()
    [record] = [record for record in caplog.records if record.message == "half-way"]
    assert record.name == "penstock.task.work"
    assert (record.__dict__["job"], record.__dict__["attempt"]) == (receipt.id, 1)


async def test_middleware_is_around_every_run_the_first_outermost(
    app: penstock.App, kit: Kit
) -> None:
    said: list[str] = []

    def named(name: str) -> Callable[[penstock.JobContext, Proceed], Awaitable[Any]]:
        async def middleware(context: penstock.JobContext, proceed: Proceed) -> Any:
            said.append(f"{name} before {context.job.type}")
            result = await proceed()
            said.append(f"{name} after {result}")
            return result

        return middleware

    app.around_job(named("outer"))
    app.around_job(named("inner"))

    @app.task
    async def work() -> str:
        said.append("work")
        return "done"

    one = ["outer before work", "inner before work", "work", "inner after done", "outer after done"]
    await work.enqueue()
    await kit.drain()
    assert said == one
    await app.execute_now(work)
    assert said == 2 * one


async def test_middleware_may_change_the_result_or_do_without_the_handler(
    app: penstock.App, kit: Kit
) -> None:
    ran = []

    @app.around_job
    async def cached(context: penstock.JobContext, proceed: Proceed) -> Any:
        return "cached" if context.job.payload["word"] == "known" else f"{await proceed()}!"

    @app.task
    async def look_up(word: str) -> str:
        ran.append(word)
        return word

    await look_up.enqueue("known")
    await look_up.enqueue("new")
    await kit.drain()
    assert [job.result for job in await kit.jobs()] == ["cached", "new!"]
    assert ran == ["new"]


async def test_what_middleware_raises_is_the_attempts_error(app: penstock.App, kit: Kit) -> None:
    @app.around_job
    async def refuse(context: penstock.JobContext, proceed: Proceed) -> Any:
        raise penstock.Permanent("not today")

    @app.task
    async def work() -> None: ...

    await work.enqueue()
    await kit.drain()
    [job] = await kit.jobs()
    assert job.state is State.FAILED
    assert job.errors[0].message == "Permanent: not today"


async def test_what_middleware_sets_in_its_context_is_seen_in_the_loop_and_in_threads(
    app: penstock.App, kit: Kit
) -> None:
    @app.around_job
    async def speak(context: penstock.JobContext, proceed: Proceed) -> Any:
        language.set("latin")
        return await proceed()

    @app.task
    async def in_the_loop() -> str:
        return language.get()

    @app.task
    def in_a_thread() -> str:
        return language.get()

    await in_the_loop.enqueue()
    await in_a_thread.enqueue()
    await kit.drain()
    assert [job.result for job in await kit.jobs()] == ["latin", "latin"]
    assert language.get() == "none"
