"""A worker holds no more leases than it can start, and asks for as many as that at once."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

import penstock
from penstock.errors import InvalidInput
from penstock.stores.layers.counting import Counting
from penstock.stores.memory import MemoryStore
from penstock.testing.kit import Kit
from tests.worker import cpu_tasks
from tests.worker.working import at_work, until, watched


async def test_a_worker_never_holds_more_than_it_can_start(app: penstock.App, kit: Kit) -> None:
    gates = [asyncio.Event() for _ in range(10)]
    ended, held = list[int](), list[int]()

    @app.task
    async def wait(number: int) -> None:
        held.append(worker.counters.claimed - len(ended))
        await gates[number].wait()
        ended.append(number)

    await app.enqueue_many(wait.job(n) for n in range(10))
    async with at_work(kit, concurrency=4) as worker:
        for number in range(10):
            await worker.until_running(min(4, 10 - number))
            await kit.clock.advance(1)
            assert len(held) == min(10, 4 + number)
            assert (await kit.queue.stats()).totals["running"] == min(4, 10 - number)
            gates[number].set()
        await until(lambda: worker.counters.completed == 10)
    assert max(held) == 4


async def test_acks_share_a_commit_with_the_claim_that_follows_them(
    app: penstock.App, kit: Kit
) -> None:
    @app.task
    async def hello() -> None: ...

    await app.enqueue_many(hello.job() for _ in range(40))
    before = (await kit.queue.stats()).commit
    async with at_work(kit, concurrency=4, jobs_max=40) as worker:
        await worker.task
    claims_and_last_acks = 40 // 4 + 1
    assert (await kit.queue.stats()).commit - before == claims_and_last_acks


async def test_one_claim_fills_all_the_room(app: penstock.App, kit: Kit) -> None:
    gate = asyncio.Event()

    @app.task
    async def wait() -> None:
        await gate.wait()

    await app.enqueue_many(wait.job() for _ in range(20))
    before = (await kit.queue.stats()).commit
    async with at_work(kit, concurrency=16) as worker:
        await worker.until_running(16)
        assert (await kit.queue.stats()).commit == before + 1
        gate.set()
        await until(lambda: worker.counters.completed == 20)


async def test_the_acks_of_a_wave_share_their_commits() -> None:
    store = Counting(MemoryStore())
    app = penstock.App(store=store)

    @app.task
    async def work() -> None: ...

    async with app:
        await app.enqueue_many(work.job() for _ in range(512))
        before = store.requests
        worker = penstock.Worker(app, penstock.WorkerOptions(burst=True, monitor=False))
        await worker.run()
        assert worker.counters.completed == 512
        assert store.requests.since(before).puts < 512 / 10


async def test_a_thread_that_goes_on_keeps_its_room(
    app: penstock.App, kit: Kit, gate: threading.Event
) -> None:
    @app.task
    def wait() -> str:
        gate.wait()
        return "too late"

    @app.task
    async def work() -> None: ...

    first = await wait.enqueue()
    async with at_work(kit, concurrency=1) as worker:
        await worker.until_running(1)
        await kit.queue.cancel(first.id)
        await kit.clock.advance(10)
        await worker.until_running(0)
        await work.enqueue()
        await kit.clock.advance(60)
        assert worker.counters.claimed == 1
        assert worker.worker.left_behind == 1
        gate.set()
        await until(lambda: worker.counters.completed == 1)
        assert worker.worker.left_behind == 0


@pytest.mark.slow
async def test_a_job_that_needs_a_process_is_claimed_only_for_an_idle_one(tmp_path: Path) -> None:
    app = cpu_tasks.app
    pipes = [tmp_path / str(number) for number in range(3)]
    for pipe in pipes:
        os.mkfifo(pipe)
    with app.rebound("memory://"):
        async with app:
            queue = await app.queue()
            await app.enqueue_many(cpu_tasks.read.job(str(pipe)) for pipe in pipes)
            await app.enqueue_many(cpu_tasks.quick.job(n) for n in range(20))
            options = penstock.WorkerOptions(concurrency=8, processes=1, burst=True, monitor=False)
            async with watched(penstock.Worker(app, options)) as worker:
                await until(lambda: worker.counters.completed == 20)
                assert (await queue.stats()).totals["running"] == 1
                for pipe in pipes:
                    # Opening it waits for the reader: the process that runs the job.
                    await asyncio.to_thread(pipe.write_text, "done")
                await worker.task
            assert worker.counters.completed == 23


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0},
        {"processes": 0},
        {"jobs_max": 0},
        {"lease_seconds": 0},
        {"grace_seconds": -1},
        {"lease_seconds": float("nan")},
    ],
    ids=str,
)
def test_options_that_leave_no_room_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        penstock.WorkerOptions(**options)  # type: ignore[arg-type]
