"""What a day costs on which nothing happens: a worker with its monitor, and jobs that wait.

Virtual, so that hours take no time: a loop whose selector never sleeps but jumps to the next
timer, and a clock that reads the loop's time. Whatever is done is done again every few minutes or
every hour, so that two hours are a twelfth of a day.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import TypeVar

import penstock
from penstock import NewJob
from penstock.kernel.settings import DAY_SECONDS, HOUR_SECONDS
from penstock.stores.layers.counting import Counting, Requests
from penstock.stores.memory import MemoryStore
from penstock.testing.factories import seeded_services
from penstock.worker.options import WorkerOptions
from penstock.worker.worker import Worker
from tests.tasks_layout.worlds import World

Answer = TypeVar("Answer")

EPOCH = 1_800_000_000.0
IDLE_JOBS = 200
SETTLED_SECONDS = 600
"""After that the worker has seen what there is, and repaired and vacuumed once."""
WATCHED_SECONDS = 2 * HOUR_SECONDS
REQUESTS_A_DAY_MAX = 5_000
"""Beside listing, whatever the number of idle jobs."""


class JumpingSelector(selectors.DefaultSelector):
    elapsed_seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout:
            self.elapsed_seconds += timeout
        return super().select(timeout and 0)


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.elapsed_seconds


class LoopClock:
    def now(self) -> float:
        return EPOCH + self.elapsed()

    def elapsed(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def in_virtual_time(act: Callable[[], Awaitable[Answer]]) -> Answer:
    async def run() -> Answer:
        return await act()

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(run())


async def idle() -> Requests:
    clock = LoopClock()
    store = Counting(MemoryStore(now=clock.now))
    services = seeded_services(7, clock)
    app = penstock.App(store=store, layout="tasks", services=services)

    @app.task
    async def work() -> None: ...

    async with app:
        queue = await app.queue()
        await queue.enqueue_many(
            [NewJob(work.name, delay_seconds=9 * DAY_SECONDS) for _ in range(IDLE_JOBS)]
        )
        worker = Worker(app, WorkerOptions(name="w1"), services)
        at_work = asyncio.create_task(worker.run())
        await asyncio.sleep(SETTLED_SECONDS)
        before = store.requests
        await asyncio.sleep(WATCHED_SECONDS)
        spent = store.requests.since(before)
        assert [one.id for one in await queue.workers()] == ["w1"]
        worker.stop()
        await at_work
    return spent


def test_a_day_of_an_idle_worker_costs_no_more_than_it_may() -> None:
    spent = in_virtual_time(idle)
    a_day = (spent.total - spent.lists) * DAY_SECONDS / WATCHED_SECONDS
    assert a_day <= REQUESTS_A_DAY_MAX


async def test_a_claim_that_finds_nothing_reads_nothing() -> None:
    world = World()
    store = Counting(world.store)
    async with world.open(store) as queue:
        assert await queue.claim() == []
        for _ in range(5):
            await world.clock.advance(10)
            before = store.requests
            assert await queue.claim() == []
            assert await queue.expire() == 0
            assert store.requests.since(before).gets == 0


async def test_a_claim_that_finds_nothing_has_seen_what_was_resumed_meanwhile() -> None:
    world = World()
    async with world.open() as queue, world.open() as other:
        await other.enqueue("work")
        await other.pause("default")
        assert await queue.claim() == []
        await other.resume("default")
        assert len(await queue.claim()) == 1


async def test_a_claim_goes_by_a_pause_that_it_has_not_heard_of() -> None:
    world = World()
    async with world.open() as queue, world.open() as other:
        assert await queue.claim() == []
        await other.enqueue("work")
        await other.pause("default")
        assert await queue.claim() == []


async def test_a_dead_lease_is_taken_back_by_the_settings_of_now() -> None:
    world = World()
    async with world.open() as queue, world.open() as other:
        await other.enqueue("work")
        assert len(await other.claim(lease_seconds=10)) == 1
        assert await queue.expire() == 0
        await other.configure(clock_skew_seconds=60)
        await world.clock.advance(30)
        assert await queue.expire() == 0
        await world.clock.advance(60)
        assert await queue.expire() == 1


async def test_a_leader_asks_the_store_when_most_of_its_time_is_over() -> None:
    world = World()
    store = Counting(world.store)
    async with world.open(store) as queue, world.open() as other:
        assert await queue.elect("monitor", "m1", 60)
        before = store.requests
        for _ in range(2):
            await world.clock.advance(15)
            assert await queue.elect("monitor", "m1", 60)
            assert not await other.elect("monitor", "m2", 60)
        assert store.requests.since(before).total == 0
        await world.clock.advance(15)
        assert await queue.elect("monitor", "m1", 60)
        assert (store.requests.since(before).puts, store.requests.since(before).gets) == (1, 0)
        await world.clock.advance(59)
        assert not await other.elect("monitor", "m2", 60)


async def test_a_leader_that_slept_learns_that_another_leads() -> None:
    world = World()
    async with world.open() as queue, world.open() as other:
        assert await queue.elect("monitor", "m1", 60)
        await world.clock.advance(61)
        assert await other.elect("monitor", "m2", 60)
        assert not await queue.elect("monitor", "m1", 60)
        assert await other.elect("monitor", "m2", 0.0)
        assert await queue.elect("monitor", "m1", 60)


async def test_a_leader_does_not_lead_on_because_its_clock_was_set_back() -> None:
    world = World()
    store = Counting(world.store)
    async with world.open(store) as queue:
        assert await queue.elect("monitor", "m1", 60)
        world.clock.set_ahead(-DAY_SECONDS)
        before = store.requests
        await world.clock.advance(45)
        assert await queue.elect("monitor", "m1", 60)
        assert store.requests.since(before).puts == 1
