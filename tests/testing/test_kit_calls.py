"""The test kit in plain tests, with a TestClient, and in the strict mode of pytest-asyncio."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

import penstock
from penstock.errors import JobFailed, UnknownType
from penstock.testing.clock import EPOCH, FakeClock
from penstock.testing.kit import BlockingKit, Kit, in_memory_sync

SECONDS_MAX = 120


class Broken(Exception):
    pass


async def test_a_call_runs_what_it_enqueued_and_waits_for_nobody(
    app: penstock.App, kit: Kit
) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    assert await add.call(1, 2) == 3


async def test_a_call_of_the_queue_itself_waits_for_nobody_either(
    app: penstock.App, kit: Kit
) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    @app.task
    async def twice(n: int) -> int:
        return int(await (await app.queue()).call("add", {"a": n, "b": n}))

    queue = await app.queue()
    assert await queue.call("add", {"a": 1, "b": 2}) == 3
    assert await kit.queue.call("twice", {"n": 2}) == 4
    with pytest.raises(UnknownType, match="no task 'subtract'"):
        await queue.call("subtract")


async def test_a_call_moves_the_clock_to_its_retries_and_no_further(
    app: penstock.App, kit: Kit
) -> None:
    attempts = []

    @app.task(retry=penstock.RetryPolicy(initial_seconds=60, max_seconds=600, jitter=0))
    async def flaky() -> int:
        attempts.append(kit.clock.now())
        if len(attempts) < 3:
            raise Broken
        return len(attempts)

    @app.task
    async def tomorrow() -> None: ...

    await tomorrow.options(delay_seconds=86_400).enqueue()
    assert await flaky.call() == 3
    assert [round(at - EPOCH) for at in attempts] == [0, 60, 180]
    await kit.assert_enqueued(tomorrow)


async def test_a_call_that_fails_says_so(app: penstock.App, kit: Kit) -> None:
    @app.task(max_attempts=2)
    async def broken() -> None:
        raise Broken("for good")

    with pytest.raises(JobFailed, match="for good"):
        await broken.call()


async def test_a_handler_may_call_another_task(app: penstock.App, kit: Kit) -> None:
    @app.task
    async def inner(n: int) -> int:
        return n + 1

    @app.task
    async def outer(n: int) -> int:
        return 10 * await inner.call(n)

    assert await outer.call(1) == 20


async def test_a_call_whose_queue_is_paused_says_what_it_waits_for(
    app: penstock.App, kit: Kit
) -> None:
    @app.task
    async def work() -> None: ...

    await kit.queue.pause()
    with pytest.raises(AssertionError, match="paused"):
        await work.call()


async def test_errors_of_handlers_are_raised_where_a_test_asks_for_them(
    app: penstock.App, kit: Kit
) -> None:
    @app.task
    async def broken() -> None:
        raise Broken("at once")

    await broken.enqueue()
    with pytest.raises(Broken, match="at once"):
        await kit.drain(raise_errors=True, jump=True)
    [job] = await kit.jobs(broken)
    assert job.attempt == 1
    assert (await kit.drain(jump=True)).failed == 3


async def test_asking_for_a_retry_is_no_error(app: penstock.App, kit: Kit) -> None:
    attempts = []

    @app.task
    async def later() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise penstock.Retry(after=5)
        if len(attempts) == 2:
            raise penstock.Snooze(seconds=5)

    await later.enqueue()
    assert (await kit.drain(raise_errors=True, jump=True)).completed == 1


def test_plain_tests_have_the_same_without_await() -> None:
    app = penstock.App("nowhere")

    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    with in_memory_sync(app) as kit:
        add.enqueue_sync(1, 2)
        assert kit.assert_enqueued(add, a=1).payload == {"a": 1, "b": 2}
        assert kit.drain(raise_errors=True).completed == 1
        kit.assert_nothing_enqueued()
        assert [job.result for job in kit.jobs(add, state="completed")] == [3]
        assert add.call_sync(3, 4) == 7
        add.options(delay_seconds=60).enqueue_sync(5, 6)
        assert kit.drain().completed == 0
        kit.advance(60)
        assert kit.drain().completed == 1
        assert kit.now() == pytest.approx(EPOCH + 60)


def test_a_handler_that_exits_has_failed_like_any_other() -> None:
    app = penstock.App("nowhere")

    @app.task
    async def leave() -> None:
        sys.exit(4)

    with in_memory_sync(app) as kit:
        leave.enqueue_sync()
        assert kit.drain().failed == 1
        kit.advance(60)
        with pytest.raises(SystemExit):
            kit.drain(raise_errors=True)
        assert leave.enqueue_sync().status == "queued"


def test_plain_tests_hear_of_types_that_nobody_knows() -> None:
    app = penstock.App("nowhere")
    with in_memory_sync(app) as kit:
        app.wait(_enqueued_by_name(app))
        with pytest.raises(UnknownType, match="elsewhere"):
            kit.drain()


async def _enqueued_by_name(app: penstock.App) -> None:
    await (await app.queue()).enqueue("elsewhere")


@pytest.fixture
def shop() -> penstock.App:
    return penstock.App("nowhere")


@pytest.fixture
def shop_kit(shop: penstock.App) -> Iterator[BlockingKit]:
    with in_memory_sync(shop, FakeClock()) as kit:
        yield kit


def test_it_goes_together_with_a_test_client(shop: penstock.App, shop_kit: BlockingKit) -> None:
    @shop.task
    async def charge(order: int) -> int:
        return 2 * order

    async def order(request: Request) -> JSONResponse:
        await charge.enqueue(order=7)
        return JSONResponse({"charged": await charge.call(21)})

    def order_plainly(request: Request) -> JSONResponse:
        charge.enqueue_sync(order=8)
        return JSONResponse({})

    site = Starlette(
        routes=[Route("/order", order), Route("/plain", order_plainly)],
    )
    with TestClient(site) as client:
        assert client.get("/order").json() == {"charged": 42}
        assert client.get("/plain").json() == {}
        shop_kit.assert_enqueued(charge, order=8)
        assert shop_kit.drain(raise_errors=True).completed == 1
    assert sorted(job.result for job in shop_kit.jobs(charge)) == [14, 16, 42]


def test_the_fixtures_work_in_strict_mode(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["penstock.testing.fixtures"]\n')
    (tmp_path / "test_mine.py").write_text(textwrap.dedent(STRICT))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
         "-o", "asyncio_mode=strict", "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip
    assert "2 passed" in done.stdout, done.stdout + done.stderr


STRICT = """
    import pytest

    @pytest.mark.asyncio
    async def test_awaiting(penstock_app, penstock_kit):
        @penstock_app.task
        async def add(a: int, b: int) -> int:
            return a + b

        assert await add.call(1, 2) == 3
        await add.enqueue(1, 2)
        assert (await penstock_kit.drain(raise_errors=True)).completed == 1

    def test_plain(penstock_app, penstock_kit_sync):
        @penstock_app.task
        def add(a: int, b: int) -> int:
            return a + b

        assert add.call_sync(1, 2) == 3
"""
