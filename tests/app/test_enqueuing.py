"""Ways to enqueue a task's job, and what is around it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

import penstock
from penstock.errors import CallTimeout, InvalidJob, InvalidTask, JobFailed, PenstockError
from penstock.kernel.job import Job
from penstock.testing.kit import Kit, in_memory

Proceed = Callable[[penstock.NewJob], Awaitable[penstock.Receipt]]


class Pair(msgspec.Struct):
    left: int
    right: int


async def answered(kit: Kit, asked: Awaitable[Any]) -> Any:
    """What a call returns while somebody works."""
    calling = asyncio.ensure_future(asked)
    await kit.queue.wait_for_work(timeout_seconds=10)
    await kit.drain()
    return await calling


def test_a_tasks_options_are_the_defaults_of_its_jobs(app: penstock.App) -> None:
    retry = penstock.RetryPolicy(initial_seconds=9)

    @app.task(
        queue="mail", priority=3, max_attempts=9, retry=retry, timeout_seconds=7,
        unique_seconds=60, delay_seconds=5, meta={"team": "a"}, trace="t", key="k",
    )  # fmt: skip
    async def send() -> None: ...

    assert send.job() == penstock.NewJob(
        "send", {}, "mail", None, "k", 60, 3, 5, None, 9, retry, 7, {"team": "a"}, "t", None
    )


def test_options_change_one_call_and_not_the_task(app: penstock.App) -> None:
    @app.task(priority=3)
    async def send(to: str) -> None: ...

    changed = send.options(priority=1, queue="fast", id="mine").job("a")
    assert (changed.priority, changed.queue, changed.id) == (1, "fast", "mine")
    assert (send.job("a").priority, send.job("a").queue) == (3, "default")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("countdown", "delay_seconds"),
        ("eta", "run_at"),
        ("max_retries", "max_attempts"),
        ("time_limit", "timeout_seconds"),
        ("delay_second", "delay_seconds"),
        ("prioritty", "priority"),
        ("colour", None),
    ],
)
def test_an_option_that_does_not_exist_is_refused_with_what_may_be_meant(
    app: penstock.App, name: str, meant: str | None
) -> None:
    @app.task
    async def send() -> None: ...

    hint = "" if meant is None else f"'{meant}' may be what you mean; "
    given: dict[str, Any] = {name: 3}
    words = f"no option '{name}'; {hint}known are queue, "
    with pytest.raises(InvalidTask, match=words):
        send.options(**given)
    with pytest.raises(InvalidTask, match=words):
        app.task(**given)(print)


def test_a_key_function_gets_all_arguments_defaults_included(app: penstock.App) -> None:
    @app.task(key=lambda user, kind: f"{kind}-{user}")
    async def report(user: int, kind: str = "daily") -> None: ...

    assert report.job(7).key == "daily-7"
    assert report.job(7, kind="weekly").key == "weekly-7"
    assert report.job(7).payload == {"user": 7}


async def test_a_key_allows_one_live_job_at_a_time(app: penstock.App, kit: Kit) -> None:
    @app.task(key=lambda user: f"user-{user}")
    async def report(user: int) -> None: ...

    first = await report.enqueue(1)
    again = await report.enqueue(1)
    assert (again.status, again.id) == ("duplicate", first.id)
    assert (await report.enqueue(2)).status == "queued"
    await kit.drain()
    assert (await report.enqueue(1)).status == "queued"


async def test_many_jobs_are_one_commit(app: penstock.App, kit: Kit) -> None:
    @app.task
    async def resize(image: int) -> None: ...

    before = (await kit.queue.stats()).commit
    receipts = await app.enqueue_many(resize.job(n) for n in range(100))
    assert (await kit.queue.stats()).commit == before + 1
    assert [receipt.status for receipt in receipts if isinstance(receipt, penstock.Receipt)] == [
        "queued"
    ] * 100
    assert (await kit.drain()).completed == 100


async def test_a_call_returns_the_result_as_its_type(app: penstock.App, kit: Kit) -> None:
    @app.task
    async def swap(pair: Pair) -> Pair:
        return Pair(pair.right, pair.left)

    assert await answered(kit, swap.call(Pair(1, 2))) == Pair(2, 1)


async def test_a_call_of_a_failing_task_raises_with_the_original_error(
    app: penstock.App, kit: Kit
) -> None:
    @app.task(max_attempts=1)
    async def fail() -> None:
        raise KeyError("nowhere")

    with pytest.raises(JobFailed, match="KeyError: 'nowhere'"):
        await answered(kit, fail.call())


async def test_a_call_waits_as_long_as_it_was_told() -> None:
    app = penstock.App("memory://")  # without the kit, whose calls wait for nobody

    @app.task(wait_seconds=0.01, timeout_seconds=77)
    async def never() -> None: ...

    async with app:
        with pytest.raises(CallTimeout, match=r"0\.01 s"):
            await never.call()
        [job] = [job async for job in (await app.queue()).jobs()]
    assert (job.state, job.timeout_seconds) == ("pending", 77)


async def test_a_call_returns_a_cached_result_at_once(app: penstock.App, kit: Kit) -> None:
    @app.task(id="answer")
    async def think() -> int:
        return 42

    await think.enqueue()
    await kit.drain()
    assert await think.call() == 42


async def test_middleware_is_around_every_enqueue_the_first_outermost(
    app: penstock.App, kit: Kit
) -> None:
    said: list[str] = []

    def named(name: str) -> Callable[[penstock.NewJob, Proceed], Awaitable[penstock.Receipt]]:
        async def middleware(new: penstock.NewJob, proceed: Proceed) -> penstock.Receipt:
            said.append(f"{name} before {new.type}")
            receipt = await proceed(new)
            said.append(f"{name} after {receipt.status}")
            return receipt

        return middleware

    app.around_enqueue(named("outer"))
    app.around_enqueue(named("inner"))

    @app.task
    async def work() -> None: ...

    one = ["outer before work", "inner before work", "inner after queued", "outer after queued"]
    await work.enqueue()
    assert said == one
    await answered(kit, work.call())
    assert said == 2 * one
    await app.enqueue_many([work.job()])
    assert said == 3 * one


async def test_middleware_may_change_the_job(app: penstock.App, kit: Kit) -> None:
    @app.around_enqueue
    async def stamp(new: penstock.NewJob, proceed: Proceed) -> penstock.Receipt:
        return await proceed(msgspec.structs.replace(new, meta={"user": "ada"}, id="other"))

    @app.task
    async def work() -> str:
        return "done"

    assert await answered(kit, work.call()) == "done"
    job = await kit.queue.get("other")
    assert job is not None
    assert job.meta == {"user": "ada"}


async def test_middleware_may_keep_a_job_from_being_enqueued(app: penstock.App, kit: Kit) -> None:
    @app.around_enqueue
    async def refuse(new: penstock.NewJob, proceed: Proceed) -> penstock.Receipt:
        return penstock.Receipt("none", "duplicate", None)

    @app.task
    async def work() -> None: ...

    assert (await work.enqueue()).id == "none"
    await kit.assert_nothing_enqueued()


async def test_with_middleware_too_one_bad_job_of_many_fails_alone(
    app: penstock.App, kit: Kit
) -> None:
    @app.around_enqueue
    async def as_it_is(new: penstock.NewJob, proceed: Proceed) -> penstock.Receipt:
        return await proceed(new)

    @app.task
    async def work() -> None: ...

    impossible: Any = "high"
    bad_job = penstock.NewJob("work", priority=impossible)
    good, bad = await app.enqueue_many([work.job(), bad_job])
    assert isinstance(good, penstock.Receipt)
    assert isinstance(bad, InvalidJob)
    assert isinstance(bad, PenstockError)


class ShoutingCodec:
    """JSON in capitals."""

    name = "shouting"

    def encode(self, value: Any) -> bytes:
        return json.dumps(value).upper().encode()

    def decode(self, data: bytes) -> Any:
        return {name.lower(): value for name, value in json.loads(data).items()}


async def test_a_codec_of_ones_own_is_chosen_by_name() -> None:
    app = penstock.App("memory://codecs", codecs=[ShoutingCodec()])

    @app.task(codec="shouting")
    async def echo(word: str) -> str:
        return word

    async with app:
        receipt = await echo.enqueue("hello")
        await penstock.Worker(app, penstock.WorkerOptions(burst=True)).run()
        job = await (await app.queue()).get(receipt.id)
    assert isinstance(job, Job)
    assert (job.codec, job.result) == ("shouting", "HELLO")


async def test_an_app_without_an_address_is_at_penstock_url(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PENSTOCK_URL", "memory://from-the-environment")
    app = penstock.App()
    assert "PENSTOCK_URL" in repr(app)
    async with app:
        assert (await app.queue()).capabilities.backend == "memory://from-the-environment"


async def test_the_kit_leaves_an_open_app_at_its_own_queue(app: penstock.App) -> None:
    @app.task
    async def work() -> None: ...

    async with app:
        await work.enqueue()
        async with in_memory(app) as kit:
            await kit.assert_nothing_enqueued()
            await work.enqueue()
        assert (await (await app.queue()).stats()).totals["pending"] == 1


async def test_an_app_shows_its_jobs_and_counts(app: penstock.App, kit: Kit) -> None:
    @app.task
    async def double(number: int) -> int:
        return number * 2

    receipt = await double.enqueue(21)
    assert repr(receipt) == f"<Receipt {receipt.id} queued>"
    await kit.drain()
    job = await app.get(receipt.id)
    assert job is not None
    assert (job.payload, job.result) == ({"number": 21}, 42)
    assert await app.get("unknown") is None
    assert (await app.stats()).jobs == 1


def test_an_app_shows_its_jobs_and_counts_without_an_event_loop() -> None:
    app = penstock.App("memory://")

    @app.task
    def work() -> None: ...

    with app:
        job = app.get_sync(work.enqueue_sync().id)
        assert job is not None
        assert job.type == "work"
        assert app.get_sync("unknown") is None
        assert app.stats_sync().jobs == 1


async def test_an_app_that_is_moved_leaves_behind_what_only_its_own_address_has() -> None:
    app = penstock.App("postgresql://server/database", schema="mail", payload_bytes_max=7)
    app.relocate("memory://")

    @app.task
    async def send(to: str) -> None: ...

    async with app:
        with pytest.raises(penstock.PayloadTooLarge):
            await send.enqueue("everybody")
