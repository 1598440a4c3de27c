"""Hooks: what an app is told of its jobs, in the process that ran them."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable
from typing import Any

import pytest

import penstock
from penstock.errors import HookFailed, InvalidHook, LeaseLost, StoreUnavailable
from penstock.kernel.job import State
from penstock.testing.clock import turns
from penstock.testing.kit import Kit
from tests.worker.working import at_work, until


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
    with pytest.raises(HookFailed, match="no database"):
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


async def test_what_will_be_tried_again_has_a_hook_of_its_own(app: penstock.App, kit: Kit) -> None:
    heard: list[Any] = []
    app.on_retried(lambda job, error: heard.append(("retried", job.attempt, job.state.value)))
    app.on_failed(lambda job, error: heard.append(("failed", job.attempt, job.state.value)))

    @app.task(max_attempts=2, retry=penstock.RetryPolicy(initial_seconds=0, max_seconds=0))
    async def bad() -> None:
        raise ValueError("no")

    await bad.enqueue()
    await kit.drain()
    assert heard == [("retried", 1, "pending"), ("failed", 2, "failed")]


async def test_a_hook_hears_of_trouble_with_the_store(
    app: penstock.App, kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Exception] = []
    app.on_error(heard.append)

    @app.task
    async def work() -> None: ...

    async def fail(*arguments: object, **options: object) -> list[penstock.Job]:
        raise StoreUnavailable("store", "", "gone")

    monkeypatch.setattr(kit.queue, "claim", fail)
    async with at_work(kit):
        await until(lambda: bool(heard))
    assert isinstance(heard[0], StoreUnavailable)


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


async def test_the_one_that_keeps_house_hears_of_jobs_whose_worker_died(
    app: penstock.App, kit: Kit
) -> None:
    heard: list[tuple[str, int, str]] = []
    app.on_stalled(lambda job: heard.append((job.id, job.failures, job.errors[-1].kind)))

    @app.task
    async def work() -> None: ...

    await kit.queue.enqueue("work", id="dead", queue="unserved")
    await kit.queue.claim(1, queues=["unserved"], worker="dead", lease_seconds=30)
    async with at_work(kit, monitor=True, queues=("default",)):
        await kit.clock.advance(60)
    assert heard == [("dead", 1, "expired")]


async def test_a_lost_lease_is_told_once_where_its_worker_keeps_house(
    app: penstock.App, kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    app.on_stalled(lambda job: heard.append(job.id))

    @app.task
    async def for_ever() -> None:
        await asyncio.Event().wait()

    async def fail(*arguments: object, **options: object) -> list[float]:
        raise StoreUnavailable("store", "", "gone")

    receipt = await for_ever.enqueue()
    monkeypatch.setattr(kit.queue, "heartbeat", fail)
    async with at_work(kit, monitor=True, lease_seconds=30) as worker:
        await worker.until_running(1)
        await kit.queue.pause("default")
        for _ in range(12):
            await kit.clock.advance(10)
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
    place = f"{fail.__qualname__} ({__file__}:{fail.__code__.co_firstlineno})"
    assert f"a hook failed: {place}" in caplog.text


@pytest.mark.parametrize(
    "error",
    [SystemExit("bye"), KeyboardInterrupt(), asyncio.CancelledError()],
    ids=["exit", "ctrl-c", "cancelled"],
)
async def test_a_hook_that_exits_harms_nobody(
    app: penstock.App, kit: Kit, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    heard: list[str] = []

    def fail(*facts: Any) -> None:
        raise error

    async def fail_later(*facts: Any) -> None:
        raise error

    async def fail_in_a_child(*facts: Any) -> None:
        await asyncio.gather(fail_later())

    hooks = [fail, fail_later, fail_in_a_child]
    for hook in hooks:
        app.on_completed(hook)
        app.on_failed(hook)
        app.on_stop(hook)
    app.on_completed(lambda job, result: heard.append("completed"))
    app.on_failed(lambda job, error: heard.append("failed"))
    app.on_stop(lambda app: heard.append("stopped"))

    @app.task
    async def work() -> None: ...

    @app.task(max_attempts=1)
    async def bad() -> None:
        raise ValueError

    await work.enqueue()
    await bad.enqueue()
    counters = await kit.drain()
    assert (counters.completed, counters.failed) == (1, 1)
    assert sorted(heard) == ["completed", "failed", "stopped"]
    said = [record.message for record in caplog.records if "a hook failed" in record.message]
    assert len(said) == 9
    for hook in hooks:
        place = f"{hook.__qualname__} ({__file__}:{hook.__code__.co_firstlineno})"
        assert said.count(f"a hook failed: {place}") == 3


@pytest.mark.parametrize("error", [SystemExit("no database"), KeyboardInterrupt("no database")])
async def test_where_a_start_hook_exits_no_job_is_touched(
    app: penstock.App, kit: Kit, error: BaseException
) -> None:
    @app.on_start
    def connect(app: penstock.App) -> None:
        raise error

    @app.task
    async def work() -> None: ...

    await work.enqueue()
    with pytest.raises(HookFailed, match=f"{type(error).__name__}: no database"):
        await kit.drain()
    assert (await kit.assert_enqueued(work)).attempt == 0


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


WRONG_HOOKS: dict[str, tuple[Callable[..., Any], str]] = {
    "on_start": (lambda: None, "app"),
    "on_stop": (lambda: None, "app"),
    "on_completed": (lambda job: None, "job, result"),
    "on_failed": (lambda job: None, "job, error"),
    "on_retried": (lambda job, error, more: None, "job, error"),
    "on_stalled": (lambda: None, "job"),
    "on_error": (lambda job, error: None, "error"),
    "around_job": (lambda proceed: None, "context, proceed"),
    "around_enqueue": (lambda proceed: None, "new, proceed"),
}


@pytest.mark.parametrize("decorator", WRONG_HOOKS)
def test_a_hook_that_cannot_be_called_is_refused_where_it_is_written(
    app: penstock.App, decorator: str
) -> None:
    hook, parameters = WRONG_HOOKS[decorator]
    line = hook.__code__.co_firstlineno
    with pytest.raises(InvalidHook, match=rf"called with \({parameters}\)") as refused:
        getattr(app, decorator)(hook)
    assert f"<lambda> ({__file__}:{line})" in str(refused.value)


def test_a_hook_may_take_more_than_it_is_given_if_that_has_a_default(app: penstock.App) -> None:
    @app.on_stalled
    def stalled(job: penstock.Job, say: Callable[[object], None] = print) -> None:
        say(job)

    app.on_stalled(print)
    app.on_error(functools.partial(print, "trouble:"))
    assert app.stalled_hooks == [stalled, print]


async def test_a_start_hook_that_fails_in_a_library_names_the_users_line(
    app: penstock.App, kit: Kit
) -> None:
    @app.on_start
    def configure(app: penstock.App) -> None:
        json.loads("no json")

    @app.task
    async def work() -> None: ...

    line = configure.__code__.co_firstlineno + 2
    with pytest.raises(HookFailed, match=rf"test_hooks\.py:{line}\)"):
        await kit.drain()
