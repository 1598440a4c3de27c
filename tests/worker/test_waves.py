"""Where commits are a server's work a worker claims in waves: one runs, another is written."""

from __future__ import annotations

import asyncio

import pytest

import penstock
from penstock.ports.records import Ask, Decide
from penstock.testing.conformance.backend.steps import nonzero
from penstock.testing.optimistic_records import OptimisticRecords, SharedRecords
from penstock.worker.room import Room
from tests.worker.working import until, watched

CONCURRENCY = 32
WAVE = CONCURRENCY // 2


class Server(OptimisticRecords):
    """Commits with it take as long as the test says."""

    def __init__(self) -> None:
        super().__init__(SharedRecords(), batches_at_once=2)
        self.turns = 0
        self.answers = asyncio.Event()
        self.answers.set()

    async def turn(self, ask: Ask, decide: Decide, *, is_read: bool) -> bool:
        self.turns += 1
        await self.answers.wait()
        return await super().turn(ask, decide, is_read=is_read)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def app(server: Server) -> penstock.App:
    return penstock.App(store=server)


def worker(app: penstock.App, **options: object) -> penstock.Worker:
    given = {"concurrency": CONCURRENCY, "monitor": False, "grace_seconds": 0.0, **options}
    return penstock.Worker(app, penstock.WorkerOptions(**given))  # type: ignore[arg-type]


async def test_the_jobs_of_one_wave_run_while_another_is_claimed(
    app: penstock.App, server: Server
) -> None:
    ran: list[int] = []

    @app.task
    async def work(number: int) -> None:
        if number == 0:
            server.answers.clear()
        ran.append(number)

    async with app:
        await app.enqueue_many(work.job(n) for n in range(3 * WAVE))
        async with watched(worker(app, jobs_max=3 * WAVE)) as it:
            await until(lambda: len(ran) == WAVE)
            assert it.counters.claimed == WAVE
            server.answers.set()
            await it.task
        assert sorted(ran) == list(range(3 * WAVE))


async def test_waves_together_hold_no_more_than_the_worker_can_start(app: penstock.App) -> None:
    gate, held = asyncio.Event(), list[int]()

    @app.task
    async def work() -> None:
        held.append(len(running.worker.running))
        await gate.wait()

    async with app:
        await app.enqueue_many(work.job() for _ in range(5 * CONCURRENCY))
        async with watched(worker(app, burst=True)) as running:
            await running.until_running(CONCURRENCY)
            gate.set()
            await running.task
        assert len(held) == 5 * CONCURRENCY
        assert max(held) <= CONCURRENCY
        assert nonzero((await (await app.queue()).stats()).totals) == {"completed": 5 * CONCURRENCY}


@pytest.mark.parametrize("jobs_max", [1, WAVE, WAVE + 1, 3 * CONCURRENCY - 1])
async def test_waves_together_claim_no_more_than_the_worker_was_told(
    app: penstock.App, jobs_max: int
) -> None:
    @app.task
    async def work() -> None: ...

    async with app:
        await app.enqueue_many(work.job() for _ in range(4 * CONCURRENCY))
        it = worker(app, jobs_max=jobs_max)
        await it.run()
        totals = (await (await app.queue()).stats()).totals
    assert it.counters.completed == jobs_max
    assert nonzero(totals) == {"completed": jobs_max, "pending": 4 * CONCURRENCY - jobs_max}


async def test_what_one_wave_has_asked_for_another_does_not() -> None:
    room = Room(CONCURRENCY, processes=2)
    with room.keep(WAVE, processes=2):
        assert (room.free, room.free_processes) == (CONCURRENCY - WAVE, 0)
        assert not room.is_idle
    assert (room.free, room.free_processes) == (CONCURRENCY, 2)


async def test_a_worker_without_a_backlog_asks_as_often_as_one_without_waves(
    app: penstock.App, server: Server
) -> None:
    @app.task
    async def work() -> None: ...

    async with app:
        async with watched(worker(app, jobs_max=1)) as it:
            await until(lambda: server.turns == 1)
            await work.enqueue()
            await it.task
        first_claim, enqueue, second_claim, ack = 1, 1, 1, 1
        assert server.turns == first_claim + enqueue + second_claim + ack
