"""A lost lease or a cancellation stops the handler; what it makes afterwards counts for nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

import penstock
from penstock.errors import JobCancelled, PenstockError
from penstock.kernel.job import State
from penstock.ports.backend import CancelledListener
from penstock.runtime.services import Services
from penstock.stores.layers.counting import Counting
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock
from penstock.testing.kit import Kit
from penstock.worker.options import WorkerOptions
from penstock.worker.worker import Worker
from tests.worker.working import at_work, found, until, watched

LONG_SECONDS = 3_600.0
"""A lease whose heartbeats no test lives to see."""


async def test_a_cancelled_job_stops_its_handler_at_once(app: penstock.App, kit: Kit) -> None:
    ended: list[str] = []

    @app.task
    async def for_ever() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    receipt, other = await for_ever.enqueue(), await for_ever.enqueue()
    async with at_work(kit, lease_seconds=LONG_SECONDS) as worker:
        await worker.until_running(2)
        assert await kit.queue.cancel(receipt.id) == "cancelled"
        await until(lambda: worker.counters.stalled == 1)
        assert worker.worker.running == [other.id]
        assert ended == ["cancelled"]
    assert (await found(kit, receipt.id)).state is State.CANCELLED


@pytest.mark.parametrize("layout", ["log", "single"])
async def test_what_another_process_cancels_in_a_folder_stops_its_handler_without_a_heartbeat(
    app: penstock.App, tmp_path: Path, layout: str
) -> None:
    @app.task
    async def for_ever() -> None:
        await asyncio.Event().wait()

    url = f"{tmp_path.as_uri()}?layout={layout}"
    app.relocate(url)
    options = WorkerOptions(lease_seconds=LONG_SECONDS, grace_seconds=0, monitor=False)
    async with app, penstock.open(url) as elsewhere, watched(Worker(app, options)) as worker:
        receipt = await for_ever.enqueue()
        await worker.until_running(1)
        assert await elsewhere.cancel(receipt.id) == "cancelled"
        await until(lambda: worker.counters.stalled == 1)


async def test_where_nothing_is_pushed_the_next_heartbeat_tells(clock: FakeClock) -> None:
    app = penstock.App()

    @app.task
    async def for_ever() -> None:
        await asyncio.Event().wait()

    store = Counting(MemoryStore(now=clock.now))
    app.relocate(None, store=store, services=Services(clock=clock))
    elsewhere = penstock.open(store=store, services=Services(clock=clock))
    async with app, elsewhere:
        kit = Kit(app, await app.queue(), clock)
        async with at_work(kit, concurrency=1) as worker:
            receipt = await for_ever.enqueue()
            await worker.until_running(1)
            await elsewhere.cancel(receipt.id)
            before = store.requests
            await clock.advance(9.5)
            assert len(worker.worker.running) == 1
            assert store.requests == before, "nothing is polled for it"
            await clock.advance(1)
            await until(lambda: worker.counters.stalled == 1)


async def test_after_a_jump_over_many_commits_the_worker_asks_at_once(
    app: penstock.App, kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower that lags too far behind is told to look for itself."""

    @app.task
    async def for_ever() -> None:
        await asyncio.Event().wait()

    hearing: list[CancelledListener] = []

    def note(tell: CancelledListener) -> AbstractContextManager[None]:
        hearing.append(tell)
        return nullcontext()

    monkeypatch.setattr(kit.queue, "watch_cancelled", note)
    receipt = await for_ever.enqueue()
    async with at_work(kit, lease_seconds=LONG_SECONDS) as worker:
        await worker.until_running(1)
        await kit.queue.cancel(receipt.id)
        hearing[0](None)
        await until(lambda: worker.counters.stalled == 1)


async def test_a_handler_that_swallows_its_cancellation_does_not_complete_its_job(
    app: penstock.App, kit: Kit
) -> None:
    @app.task
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done all the same"
        return "never"

    receipt = await stubborn.enqueue()
    async with at_work(kit) as worker:
        await worker.until_running(1)
        await kit.queue.cancel(receipt.id)
        await kit.clock.advance(10)
        await until(lambda: worker.counters.stalled == 1)
    job = await found(kit, receipt.id)
    assert (job.state, job.result) == (State.CANCELLED, None)
    assert worker.counters.completed == 0


async def test_a_thread_is_told_and_its_result_discarded(
    app: penstock.App, kit: Kit, gate: threading.Event
) -> None:
    seen: list[PenstockError] = []

    @app.task
    def in_a_thread(context: penstock.JobContext) -> str:
        gate.wait()
        try:
            context.raise_if_cancelled()
        except PenstockError as error:
            seen.append(error)
        return "too late"

    receipt = await in_a_thread.enqueue()
    async with at_work(kit) as worker:
        await worker.until_running(1)
        await kit.queue.cancel(receipt.id)
        await kit.clock.advance(10)
        await until(lambda: worker.counters.stalled == 1)
        gate.set()
        await until(lambda: worker.worker.left_behind == 0)
    assert [type(error) for error in seen] == [JobCancelled]
    assert (await found(kit, receipt.id)).result is None


async def test_a_thread_whose_job_is_still_held_is_told_nothing(
    app: penstock.App, kit: Kit
) -> None:
    @app.task
    def in_a_thread(context: penstock.JobContext) -> bool:
        context.raise_if_cancelled()
        return context.is_cancelled

    receipt = await in_a_thread.enqueue()
    await kit.drain()
    assert (await found(kit, receipt.id)).result is False


async def test_a_result_that_comes_after_the_lease_is_gone_is_discarded(
    app: penstock.App, kit: Kit
) -> None:
    gate = asyncio.Event()

    @app.task
    async def slow() -> int:
        await gate.wait()
        return penstock.current_job().attempt

    receipt = await slow.enqueue()
    async with at_work(kit) as worker:
        await worker.until_running(1)
        # Nobody runs while it jumps, so no heartbeat comes in between.
        kit.clock.jump(33)
        assert await kit.queue.expire() == 1
        gate.set()
        await until(lambda: worker.counters.stalled == 1)
        assert worker.counters.completed == 0
        await kit.clock.advance(60)
        await until(lambda: worker.counters.completed == 1)
    job = await found(kit, receipt.id)
    assert (job.state, job.result, job.failures) == (State.COMPLETED, 2, 1)


async def test_a_job_that_comes_back_runs_beside_its_old_handler_and_both_end(
    app: penstock.App, kit: Kit, new_gate: Callable[[], asyncio.Event]
) -> None:
    gates = {1: new_gate(), 2: new_gate()}

    @app.task
    async def stubborn() -> str:
        attempt = penstock.current_job().attempt
        while not gates[attempt].is_set():
            try:
                await gates[attempt].wait()
            except asyncio.CancelledError:
                continue
        return f"of attempt {attempt}"

    receipt = await stubborn.enqueue()
    async with at_work(kit) as worker:
        await worker.until_running(1)
        kit.clock.jump(33)
        await kit.queue.expire()
        await kit.clock.advance(60)
        await worker.until_running(2)
        gates[1].set()
        await worker.until_running(1)
        gates[2].set()
        await worker.until_running(0)
        await until(lambda: worker.counters.completed == 1)
    assert (await found(kit, receipt.id)).result == "of attempt 2"
    assert worker.counters.stalled == 1


@pytest.mark.parametrize("seconds_late", [19, 21])
async def test_leases_that_arrive_late_are_given_back_unused(
    app: penstock.App, kit: Kit, seconds_late: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []

    @app.task
    async def work() -> None:
        ran.append(penstock.current_job().attempt)

    claim, late = kit.queue.claim, [seconds_late]

    async def slow_claim(*arguments: object, **named: object) -> list[penstock.Job]:
        jobs: list[penstock.Job] = await claim(*arguments, **named)  # type: ignore[call-overload]
        kit.clock.jump(late.pop() if jobs and late else 0)
        return jobs

    monkeypatch.setattr(kit.queue, "claim", slow_claim)
    receipt = await work.enqueue()
    assert (await kit.drain()).completed == 1
    assert ran == ([1] if seconds_late < 20 else [2])
    assert (await found(kit, receipt.id)).failures == 0
