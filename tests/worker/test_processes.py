"""Tasks with cpu=True: in real processes, which can be killed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from penstock.errors import MissingExtra
from penstock.kernel.job import State
from penstock.testing.clock import FakeClock
from penstock.testing.kit import Kit, in_memory
from penstock.worker import places
from tests.worker import cpu_tasks
from tests.worker.working import at_work, found, until

pytestmark = pytest.mark.slow


@pytest_asyncio.fixture
async def cpu_kit(clock: FakeClock) -> AsyncIterator[Kit]:
    async with in_memory(cpu_tasks.app, clock) as kit:
        yield kit


async def test_it_runs_in_another_process_and_returns_from_there(cpu_kit: Kit) -> None:
    area = await cpu_tasks.area.enqueue(cpu_tasks.Square(7))
    where = await cpu_tasks.where.enqueue()
    assert (await cpu_kit.drain()).completed == 2
    assert (await found(cpu_kit, area.id)).result == 49
    assert (await found(cpu_kit, where.id)).result != os.getpid()


async def test_what_it_raises_means_the_same_as_anywhere(cpu_kit: Kit) -> None:
    retry = await cpu_tasks.ask_for_a_retry.enqueue()
    touchy = await cpu_tasks.be_touchy.enqueue()
    leaving = await cpu_tasks.leave.enqueue()
    function = await cpu_tasks.return_a_function.enqueue()
    assert (await cpu_kit.drain()).failed == 4
    job = await found(cpu_kit, retry.id)
    assert (job.errors[0].kind, job.run_at) == ("retry", cpu_kit.clock.now() + 90)
    job = await found(cpu_kit, touchy.id)
    assert "Touchy: this and that" in job.errors[0].message
    job = await found(cpu_kit, leaving.id)
    assert (job.state, job.errors[0].kind) == (State.FAILED, "exit")
    job = await found(cpu_kit, function.id)
    assert "pickle" in job.errors[0].message


async def test_a_process_that_is_killed_fails_its_attempt_and_the_pool_goes_on(
    cpu_kit: Kit,
) -> None:
    killed = await cpu_tasks.die.enqueue()
    after = [await cpu_tasks.area.enqueue(cpu_tasks.Square(n)) for n in range(4)]
    counters = await cpu_kit.drain()
    assert (counters.failed, counters.completed) == (1, 4)
    job = await found(cpu_kit, killed.id)
    assert (job.state, job.errors[0].kind) == (State.FAILED, "error")
    assert "ProcessExpired" in job.errors[0].message
    assert [(await found(cpu_kit, each.id)).result for each in after] == [0, 1, 4, 9]


async def test_the_process_of_a_cancelled_job_is_killed(cpu_kit: Kit, tmp_path: Path) -> None:
    told, pipe = tmp_path / "told", tmp_path / "pipe"
    os.mkfifo(pipe)
    receipt = await cpu_tasks.tell_and_read.enqueue(str(told), str(pipe))
    async with at_work(cpu_kit, processes=1) as worker:
        process = await pid_in(told)
        await cpu_kit.queue.cancel(receipt.id)
        await cpu_kit.clock.advance(10)
        await until(lambda: worker.counters.stalled == 1)
        await gone(process)
        after = await cpu_tasks.area.enqueue(cpu_tasks.Square(3))
        await until(lambda: worker.counters.completed == 1)
    assert (await found(cpu_kit, receipt.id)).state is State.CANCELLED
    assert (await found(cpu_kit, after.id)).result == 9


async def test_a_process_that_takes_too_long_is_killed(cpu_kit: Kit, tmp_path: Path) -> None:
    told, pipe = tmp_path / "told", tmp_path / "pipe"
    os.mkfifo(pipe)
    slow = cpu_tasks.tell_and_read.options(timeout_seconds=2)
    async with at_work(cpu_kit, processes=1) as worker:
        # The time limit is the handler's: the process is there already.
        await cpu_tasks.area.enqueue(cpu_tasks.Square(1))
        await until(lambda: worker.counters.completed == 1)
        receipt = await slow.enqueue(str(told), str(pipe))
        await until(lambda: worker.counters.failed == 1)
    assert (await found(cpu_kit, receipt.id)).errors[0].kind == "timeout"
    await gone(await pid_in(told))


async def pid_in(file: Path) -> int:
    def told() -> str:
        return file.read_text() if file.exists() else ""

    await until(lambda: bool(told()))
    return int(told())


async def gone(process: int) -> None:
    def is_gone() -> bool:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        return False

    async with asyncio.timeout(20):
        await until(is_gone)


async def test_a_task_for_processes_without_its_extra_is_refused_at_start(
    cpu_kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipt = await cpu_tasks.area.enqueue(cpu_tasks.Square(7))
    monkeypatch.setattr(places, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"cpu=True \(area, .*penstock\[cpu\]"):
        await cpu_kit.drain()
    assert (await found(cpu_kit, receipt.id)).attempt == 0


async def test_the_traceback_of_a_process_is_kept(cpu_kit: Kit) -> None:
    receipt = await cpu_tasks.be_touchy.enqueue()
    await cpu_kit.drain()
    [failure] = await cpu_kit.queue.failures(receipt.id)
    assert failure.traceback is not None
    assert "in be_touchy" in failure.traceback


async def test_a_task_in_a_process_may_take_a_context_and_tell_its_progress(cpu_kit: Kit) -> None:
    receipt = await cpu_tasks.tell_progress.enqueue(7)
    assert (await cpu_kit.drain()).completed == 1
    job = await found(cpu_kit, receipt.id)
    assert job.result == [receipt.id, 1, 7]
    assert (job.progress, job.progress_message) == (0.75, "nearly")
