"""The test kit does what it says, and fails where it should."""

from __future__ import annotations

import datetime

import msgspec
import pytest

import penstock
from penstock.kernel.job import State
from penstock.testing import kit as kit_module
from penstock.testing.clock import EPOCH, FakeClock
from penstock.testing.kit import Kit, in_memory

MOMENT = datetime.datetime(2026, 2, 3, tzinfo=datetime.UTC)


class Size(msgspec.Struct):
    width: int


async def test_a_job_is_found_by_some_of_its_arguments(app: penstock.App, kit: Kit) -> None:
    @app.task
    async def send(to: str, subject: str = "hi") -> None: ...

    receipt = await send.enqueue("a@example.com")
    await send.enqueue("b@example.com", subject="bye")
    assert (await kit.assert_enqueued(send, to="a@example.com")).id == receipt.id
    assert (await kit.assert_enqueued("send", subject="hi")).id == receipt.id


async def test_arguments_are_compared_as_the_handler_would_get_them(
    app: penstock.App, kit: Kit
) -> None:
    @app.task
    async def resize(size: Size, at: datetime.datetime) -> None: ...

    await resize.enqueue(Size(7), MOMENT)
    await kit.assert_enqueued(resize, size=Size(7), at=MOMENT)
    with pytest.raises(AssertionError, match="0 jobs of resize wait"):
        await kit.assert_enqueued(resize, size=Size(8))


async def test_a_job_of_no_task_is_found_by_its_payload(kit: Kit) -> None:
    await kit.queue.enqueue("elsewhere", {"a": 1, "b": 2})
    assert (await kit.assert_enqueued("elsewhere", a=1)).payload == {"a": 1, "b": 2}


async def test_no_job_or_more_than_one_fails_and_shows_what_waits(
    app: penstock.App, kit: Kit
) -> None:
    @app.task
    async def send(to: str) -> None: ...

    with pytest.raises(AssertionError, match="0 jobs of send wait"):
        await kit.assert_enqueued(send)
    await send.enqueue("a")
    await send.enqueue("a")
    with pytest.raises(AssertionError, match=r"2 jobs of send .*all that wait: \[{'to': 'a'}, {"):
        await kit.assert_enqueued(send, to="a")


async def test_what_waits_fails_the_assertion_that_nothing_does(
    app: penstock.App, kit: Kit
) -> None:
    @app.task
    async def send(to: str) -> None: ...

    @app.task
    async def other() -> None: ...

    await kit.assert_nothing_enqueued()
    await send.enqueue("a")
    await kit.assert_nothing_enqueued(other)
    for task in (None, send, "send"):
        with pytest.raises(AssertionError, match=r"these wait: \[\('send', {'to': 'a'}\)\]"):
            await kit.assert_nothing_enqueued(task)
    await kit.drain()
    await kit.assert_nothing_enqueued()


async def test_draining_runs_what_is_due_and_what_that_enqueues(
    app: penstock.App, kit: Kit
) -> None:
    @app.task
    async def count_down(number: int) -> None:
        if number:
            await count_down.enqueue(number - 1)

    await count_down.enqueue(5)
    assert (await kit.drain()).completed == 6
    assert kit.clock.now() == EPOCH


async def test_draining_leaves_what_is_not_due_unless_it_may_jump(
    app: penstock.App, kit: Kit
) -> None:
    @app.task
    async def work() -> float:
        return kit.clock.now()

    later = await work.options(delay_seconds=3_600).enqueue()
    assert (await kit.drain()).claimed == 0
    assert (await kit.drain(jump=True)).completed == 1
    job = await kit.queue.get(later.id)
    assert job is not None
    assert job.result == pytest.approx(EPOCH + 3_600)


async def test_draining_with_jumps_goes_through_all_retries(app: penstock.App, kit: Kit) -> None:
    @app.task(max_attempts=5)
    async def fail() -> None:
        raise ConnectionError

    await fail.enqueue()
    assert (await kit.drain(jump=True)).failed == 5
    assert [job.state for job in await kit.jobs(fail, state="failed")] == [State.FAILED]


async def test_a_jump_reaches_times_that_microseconds_round_down(
    app: penstock.App, kit: Kit
) -> None:
    @app.task
    async def work() -> None: ...

    await work.options(run_at=1_700_000_001.167_997_1).enqueue()
    assert (await kit.drain(jump=True)).completed == 1


async def test_draining_leaves_what_is_paused(app: penstock.App, kit: Kit) -> None:
    @app.task
    async def work() -> None: ...

    await work.enqueue()
    await kit.queue.pause()
    assert (await kit.drain(jump=True)).claimed == 0
    await kit.queue.resume()
    assert (await kit.drain()).completed == 1


async def test_jobs_without_end_are_not_drained_for_ever(
    app: penstock.App, kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kit_module, "ROUNDS_MAX", 20)
    monkeypatch.setattr(kit_module, "JOBS_MAX", 50)

    @app.task
    async def again(delay_seconds: float) -> None:
        await again.options(delay_seconds=delay_seconds).enqueue(delay_seconds)

    receipt = await again.enqueue(60)
    with pytest.raises(AssertionError, match="still not drained after 20 rounds"):
        await kit.drain(jump=True)
    assert receipt.status == "queued"
    await again.enqueue(0)
    with pytest.raises(AssertionError, match="still not drained after 50 jobs"):
        await kit.drain()


async def test_the_clock_can_be_the_tests_own(app: penstock.App) -> None:
    clock = FakeClock(now=1_000_000.0)

    @app.task
    async def work() -> None: ...

    async with in_memory(app, clock) as kit:
        await work.options(delay_seconds=60).enqueue()
        assert kit.clock is clock
        await clock.advance(60)
        assert (await kit.drain()).completed == 1


async def test_after_the_block_the_app_is_where_it_was(app: penstock.App) -> None:
    before = repr(app)
    async with in_memory(app) as kit:
        await kit.queue.enqueue("work")
    assert repr(app) == before
    async with in_memory(app) as kit:
        await kit.assert_nothing_enqueued()


def test_the_fixtures_work_in_a_project_of_ones_own(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function")
    pytester.makepyfile(
        shop="""
        import penstock

        app = penstock.App("s3://a-bucket-that-no-test-may-touch")

        @app.task
        async def send_email(to: str) -> None: ...

        async def sign_up(email: str) -> None:
            await send_email.options(delay_seconds=60).enqueue(to=email)
        """
    )
    pytester.makeconftest(
        """
        import pytest, shop

        pytest_plugins = ["penstock.testing.fixtures"]

        @pytest.fixture
        def penstock_app():
            return shop.app
        """
    )
    pytester.makepyfile(
        test_shop="""
        import shop

        async def test_signing_up_sends_a_mail(penstock_kit, penstock_clock):
            await shop.sign_up("ada@example.com")
            await penstock_kit.assert_enqueued(shop.send_email, to="ada@example.com")
            assert (await penstock_kit.drain()).completed == 0
            await penstock_clock.advance(60)
            assert (await penstock_kit.drain()).completed == 1

        async def test_signing_up_sends_nothing(penstock_kit):
            await shop.sign_up("ada@example.com")
            await penstock_kit.assert_nothing_enqueued()
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*these wait: *send_email*ada@example.com*"])


def test_many_small_steps_of_the_clock_add_up() -> None:
    clock = FakeClock()
    for _ in range(1_000):
        clock.jump(0.01)
    assert clock.now() == EPOCH + 10
