"""Handles that race for the same jobs and keys, on a good day and on a bad one."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from penstock import Job, NewJob, Queue, RetryPolicy
from penstock.errors import (
    JobCancelled,
    LeaseLost,
    OutcomeUnknown,
    PenstockError,
    PutUnknown,
    StoreUnavailable,
)
from penstock.kernel.job import State
from penstock.testing.conformance.backend.steps import nonzero
from penstock.testing.faults import Faults
from tests.tasks_layout.worlds import World

HANDLES = 4
JOBS = 40
AT_ONCE = RetryPolicy(initial_seconds=0, max_seconds=0)
BAD_DAY = Faults(
    put_error=0.03, put_lost_request=0.02, put_lost_answer=0.05, put_echo=0.02, put_late=0.02,
    get_error=0.02, get_flipped=0.01, list_error=0.02, list_missed_recent=0.02,
    delete_error=0.05, late_seconds_max=3.0,
)  # fmt: skip
TROUBLE = (OutcomeUnknown, StoreUnavailable, PutUnknown)


class Racer:
    """Puts jobs in, takes them out, and meddles; on a bad day it asks again."""

    def __init__(self, queue: Queue, luck: random.Random) -> None:
        self.queued: set[str] = set()
        self.acked: list[str] = []
        self.holding: set[str] = set()
        self._queue = queue
        self._luck = luck

    async def fill(self) -> None:
        """All put the same ids and keys in, so that most of it is a duplicate."""
        jobs = [
            NewJob("work", id=f"job-{n}", key=f"key-{n % 25}", retry=AT_ONCE, max_attempts=99)
            if n % 2
            else NewJob("work", id=f"job-{n}", retry=AT_ONCE, max_attempts=99)
            for n in range(JOBS)
        ]
        self._luck.shuffle(jobs)
        for start in range(0, JOBS, 8):
            for outcome in await self._queue.enqueue_many(jobs[start : start + 8]):
                if isinstance(outcome, PenstockError):
                    assert isinstance(outcome, TROUBLE), outcome
                else:
                    self.queued.add(outcome.id)

    async def meddle(self) -> None:
        for _ in range(8):
            jobs = await self._claim(self._luck.randint(1, 4))
            try:
                match self._luck.randrange(4):
                    case 0:
                        await self._queue.nack(jobs, "boom")
                    case 1:
                        names = [f"job-{self._luck.randrange(JOBS)}" for _ in range(3)]
                        await self._queue.cancel(names)
                        await self._queue.replay(names[:1])
                        await self._queue.release(jobs)
                    case 2:
                        await self._queue.heartbeat(jobs, lease_seconds=60)
                        await self._queue.release(jobs)
                    case _:
                        await self._ack(jobs)
            except TROUBLE:
                continue

    async def drain(self) -> None:
        while jobs := await self._claim(5):
            await self._ack(jobs)

    async def _claim(self, count: int) -> list[Job]:
        try:
            return await self._queue.claim(count, lease_seconds=30)
        except TROUBLE:
            return []

    async def _ack(self, jobs: list[Job]) -> None:
        for job, outcome in zip(jobs, await self._queue.ack(jobs), strict=True):
            assert outcome is None or isinstance(outcome, (LeaseLost, JobCancelled, *TROUBLE))
            if outcome is None:
                self.acked.append(job.id)


@pytest.mark.parametrize("seed", range(8))
async def test_racing_handles_get_in_each_others_way_and_nothing_is_done_twice(seed: int) -> None:
    world = World(seed)
    async with AsyncExitStack() as stack:
        queues = [await stack.enter_async_context(world.open()) for _ in range(HANDLES)]
        racers = [Racer(queue, random.Random(f"{seed} {n}")) for n, queue in enumerate(queues)]
        await asyncio.gather(*(racer.fill() for racer in racers))
        await asyncio.gather(*(racer.meddle() for racer in racers))
        await asyncio.gather(*(racer.drain() for racer in racers * 2))
        await _expect_all_done(queues[0], racers)
    assert await world.troubles() == {}


@pytest.mark.parametrize("seed", range(25))
async def test_on_a_bad_day_nothing_told_is_lost_and_nothing_is_done_twice(seed: int) -> None:
    world = World(seed, autojump=True)
    async with AsyncExitStack() as stack:
        handles = [await stack.enter_async_context(world.open_faulty()) for _ in range(3)]
        racers = [
            Racer(queue, random.Random(f"{seed} {n}")) for n, (queue, _) in enumerate(handles)
        ]
        for _, store in handles:
            store.faults = BAD_DAY
        await asyncio.gather(*(racer.fill() for racer in racers))
        await asyncio.gather(*(racer.meddle() for racer in racers))
        for _, store in handles:
            await store.heal()
        healthy = await stack.enter_async_context(world.open())
        world.clock.jump(200)
        await healthy.repair()
        last = Racer(healthy, random.Random(seed))
        for _ in range(3):
            await last.drain()
            world.clock.jump(200)
        await _expect_all_done(healthy, [*racers, last])
        assert any(store.injected for _, store in handles), "it was a good day"
        await healthy.repair()
    assert await world.troubles() == {}


async def _expect_all_done(queue: Queue, racers: list[Racer]) -> None:
    acked = Counter(id for racer in racers for id in racer.acked)
    assert max(acked.values()) == 1, "a job was acknowledged twice"
    jobs = {job.id: job async for job in queue.jobs()}
    for racer in racers:
        assert racer.queued <= jobs.keys(), "an enqueue that was told is gone"
    states = Counter(job.state for job in jobs.values())
    assert set(states) <= {State.COMPLETED, State.CANCELLED}, states
    assert acked.keys() <= {id for id, job in jobs.items() if job.state is State.COMPLETED}
    totals = (await queue.stats()).totals
    assert nonzero(totals) == {state.value: count for state, count in states.items()}
