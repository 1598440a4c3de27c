"""How an attempt ends, by what its handler did."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

import penstock
from penstock.kernel.job import State
from penstock.testing.clock import EPOCH
from penstock.testing.kit import Kit
from tests.worker.working import at_work, found, until, until_time_passes

TOMORROW = datetime.datetime.fromtimestamp(EPOCH + 86_400, tz=datetime.UTC)


def raising(error: BaseException) -> Any:
    async def handler() -> NoReturn:
        raise error

    return handler


def raising_in_a_thread(error: BaseException) -> Any:
    def handler() -> NoReturn:
        raise error

    return handler


PLACES = pytest.mark.parametrize("place", [raising, raising_in_a_thread], ids=["loop", "thread"])


@PLACES
@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ValueError("no"), "error", "ValueError: no"),
        (ValueError(), "error", "ValueError"),
        (SystemExit(3), "exit", "SystemExit: 3"),
        (KeyboardInterrupt(), "exit", "KeyboardInterrupt"),
        (asyncio.CancelledError(), "cancelled_itself", "CancelledError"),
        (TimeoutError("mine"), "error", "TimeoutError: mine"),
        (StopIteration(), "error", "StopIteration"),
        (GeneratorExit(), "error", "GeneratorExit"),
    ],
    ids=lambda value: repr(value) if isinstance(value, BaseException) else "",
)
async def test_an_attempt_that_raises_is_tried_again(
    app: penstock.App, kit: Kit, place: Any, error: BaseException, kind: str, message: str
) -> None:
    app.task(name="work")(place(error))
    receipt = await kit.queue.enqueue("work")
    assert (await kit.drain()).failed == 1
    job = await found(kit, receipt.id)
    assert (job.state, job.failures) == (State.PENDING, 1)
    assert kit.clock.now() + 0.75 <= job.run_at <= kit.clock.now() + 1.25
    assert job.errors[0].kind == kind
    assert message in job.errors[0].message


async def test_attempts_end_with_the_last_one(app: penstock.App, kit: Kit) -> None:
    app.task(name="work", max_attempts=3)(raising(ValueError("no")))
    receipt = await app.tasks["work"].enqueue()
    assert (await kit.drain(jump=True)).failed == 3
    job = await found(kit, receipt.id)
    assert (job.state, job.attempt, len(job.errors)) == (State.FAILED, 3, 3)


@PLACES
async def test_a_handler_may_say_when_to_try_again(app: penstock.App, kit: Kit, place: Any) -> None:
    app.task(name="work")(place(penstock.Retry("busy", after=90)))
    receipt = await kit.queue.enqueue("work")
    await kit.drain()
    job = await found(kit, receipt.id)
    assert (job.state, job.failures, job.run_at) == (State.PENDING, 1, EPOCH + 90)
    assert (job.errors[0].kind, job.errors[0].message) == ("retry", "Retry: busy")


@PLACES
async def test_a_handler_may_say_that_trying_again_makes_no_sense(
    app: penstock.App, kit: Kit, place: Any
) -> None:
    app.task(name="work")(place(penstock.Permanent("no such user")))
    receipt = await kit.queue.enqueue("work")
    await kit.drain()
    job = await found(kit, receipt.id)
    assert (job.state, job.attempt) == (State.FAILED, 1)
    assert (job.errors[0].kind, job.errors[0].message) == ("permanent", "Permanent: no such user")


@pytest.mark.parametrize(
    ("snooze", "run_at"),
    [
        (penstock.Snooze(seconds=60), EPOCH + 60),
        (penstock.Snooze(until=EPOCH + 7), EPOCH + 7),
        (penstock.Snooze(until=TOMORROW), EPOCH + 86_400),
    ],
    ids=["seconds", "until", "datetime"],
)
async def test_a_handler_may_come_back_later_without_a_failure(
    app: penstock.App, kit: Kit, snooze: penstock.Snooze, run_at: float
) -> None:
    app.task(name="work")(raising(snooze))
    receipt = await kit.queue.enqueue("work")
    assert (await kit.drain()).given_back == 1
    job = await found(kit, receipt.id)
    assert (job.state, job.failures, job.run_at) == (State.PENDING, 0, run_at)
    assert not job.errors


async def test_a_handler_that_cancels_itself_fails_its_attempt_alone(
    app: penstock.App, kit: Kit
) -> None:
    @app.task
    async def give_up() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()

    @app.task
    async def work() -> None: ...

    receipt = await give_up.enqueue()
    await work.enqueue()
    counters = await kit.drain()
    assert (counters.failed, counters.completed) == (1, 1)
    assert (await found(kit, receipt.id)).errors[0].kind == "cancelled_itself"


async def test_an_attempt_that_takes_too_long_is_stopped(app: penstock.App, kit: Kit) -> None:
    stopped = []

    @app.task(timeout_seconds=0.01)
    async def for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)

    receipt = await for_ever.enqueue()
    assert (await kit.drain()).failed == 1
    job = await found(kit, receipt.id)
    assert (job.state, job.failures) == (State.PENDING, 1)
    assert job.errors[0].kind == "timeout"
    assert "longer than 0.01 s" in job.errors[0].message
    assert stopped


async def test_a_thread_that_takes_too_long_is_told(
    app: penstock.App, kit: Kit, gate: threading.Event
) -> None:
    told = []

    @app.task(timeout_seconds=0.01)
    def until_told(context: penstock.JobContext) -> None:
        while not context.is_cancelled and not gate.is_set():
            pass
        told.append(context.is_cancelled)

    receipt = await until_told.enqueue()
    assert (await kit.drain()).failed == 1
    assert (await found(kit, receipt.id)).errors[0].kind == "timeout"
    await until(lambda: told == [True])


async def test_what_a_handler_returns_although_its_time_was_up_does_not_count(
    app: penstock.App, kit: Kit
) -> None:
    @app.task(timeout_seconds=0.01)
    async def too_late() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done"
        return "never"

    receipt = await too_late.enqueue()
    assert (await kit.drain()).failed == 1
    job = await found(kit, receipt.id)
    assert (job.state, job.result, job.failures) == (State.PENDING, None, 1)
    assert job.errors[0].kind == "timeout"


async def test_a_handler_that_ignores_that_its_time_is_up_keeps_its_room_and_not_its_job(
    app: penstock.App,
    kit: Kit,
    new_gate: Callable[[], asyncio.Event],
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = new_gate()

    @app.task(timeout_seconds=0.01, max_attempts=1)
    async def stubborn() -> None:
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue

    receipt = await stubborn.enqueue()
    async with at_work(kit, concurrency=1) as worker:
        await worker.until_running(1)
        await until_time_passes(kit.clock, lambda: worker.counters.failed == 1)
        job = await found(kit, receipt.id)
        assert (job.state, job.errors[0].kind) == (State.FAILED, "timeout")
        assert worker.worker.left_behind == 1
        assert "job ignores that its time is up" in caplog.text
        gate.set()
        await worker.until_running(0)
    assert (worker.counters.failed, worker.counters.completed) == (1, 0)


async def test_a_result_that_cannot_be_stored_fails_its_job_alone(
    app: penstock.App, kit: Kit
) -> None:
    results: list[Any] = [1, object(), "x" * 300_000, 4]

    @app.task
    async def give(number: int) -> Any:
        return results[number]

    await app.enqueue_many(give.job(number) for number in range(4))
    counters = await kit.drain()
    assert (counters.completed, counters.failed) == (2, 2)
    first, unknown, large, last = await kit.jobs()
    assert (first.result, last.result) == (1, 4)
    for job, words in ((unknown, "the result can't be stored"), (large, "over the limit")):
        assert (job.state, job.attempt) == (State.FAILED, 1)
        assert job.errors[0].kind == "result"
        assert words in job.errors[0].message


async def test_where_the_unknown_is_to_fail_it_does_so_at_once_with_the_known_names(
    app: penstock.App, kit: Kit
) -> None:
    app.task(name="resize")(raising(ValueError()))
    app.task(name="crop")(raising(ValueError()))
    receipt = await kit.queue.enqueue("rezise")
    async with at_work(kit, unknown="fail", burst=True) as worker:
        await worker.task
    job = await found(kit, receipt.id)
    assert (job.state, job.attempt) == (State.FAILED, 1)
    assert job.errors[0].kind == "unknown_type"
    assert "no task 'rezise'; it has crop, resize" in job.errors[0].message


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("\ud800"), "ValueError: \\ud800"),
        (Mute(), "Mute, whose words can't be shown: RuntimeError"),
        (ValueError("x" * 10_000), "ValueError: " + "x" * 3_988),
    ],
    ids=["surrogate", "mute", "long"],
)
async def test_an_error_that_cannot_be_told_as_it_is_is_told_as_well_as_can_be(
    app: penstock.App, kit: Kit, error: Exception, message: str
) -> None:
    app.task(name="work", max_attempts=1)(raising(error))
    receipt = await app.tasks["work"].enqueue()
    await kit.drain()
    assert (await found(kit, receipt.id)).errors[0].message == message


async def test_a_handler_that_fails_and_then_succeeds_has_succeeded(
    app: penstock.App, kit: Kit
) -> None:
    tries = itertools.count(1)

    @app.task
    async def flaky() -> int:
        if next(tries) < 3:
            raise ConnectionError
        return penstock.current_job().attempt

    receipt = await flaky.enqueue()
    counters = await kit.drain(jump=True)
    assert (counters.failed, counters.completed) == (2, 1)
    job = await found(kit, receipt.id)
    assert (job.state, job.result) == (State.COMPLETED, 3)


async def test_a_task_says_how_its_results_are_stored(app: penstock.App, kit: Kit) -> None:
    @app.task(result_codec="msgpack")
    async def packed() -> dict[str, bytes]:
        return {"bytes": b"\x00\xff"}

    @app.task
    async def plain() -> str:
        return "as JSON"

    receipts = [await packed.enqueue(), await plain.enqueue()]
    await kit.drain()
    jobs = [await found(kit, receipt.id) for receipt in receipts]
    assert [job.result_codec for job in jobs] == ["msgpack", "json"]
    assert [job.result for job in jobs] == [{"bytes": b"\x00\xff"}, "as JSON"]


async def test_an_ending_that_can_not_be_told_fails_its_own_attempt(
    app: penstock.App, kit: Kit
) -> None:
    class Odd(penstock.Retry):
        def __init__(self) -> None:
            super().__init__(after=1.0)
            self.after = "a while"  # type: ignore[assignment]

    @app.task(max_attempts=1)
    async def odd() -> None:
        raise Odd

    @app.task
    async def fine() -> None: ...

    bad, good = await odd.enqueue(), await fine.enqueue()
    await kit.drain()
    assert (await found(kit, bad.id)).errors[-1].kind == "ending"
    assert (await found(kit, good.id)).state is State.COMPLETED
