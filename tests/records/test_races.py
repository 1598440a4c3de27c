"""Handles that race on a store which locks nothing: turns are lost, and nothing else is."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack

import pytest

import penstock
from penstock import NewJob, Queue, RetryPolicy
from penstock.errors import JobCancelled, LeaseLost
from penstock.insights.stored_records import StoredRecords
from penstock.kernel.job import State
from penstock.runtime.services import Services
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.steps import nonzero
from penstock.testing.factories import seeded_services
from penstock.testing.optimistic_records import OptimisticRecords, SharedRecords

HANDLES = 4
JOBS = 60
AT_ONCE = RetryPolicy(initial_seconds=0, max_seconds=0)
# An order over turns that overlap is what such a store can't promise.
NOT_PROMISED = {"claims follow the order"}


@pytest.mark.parametrize("seed", range(8))
async def test_racing_handles_lose_turns_and_nothing_else(seed: int) -> None:
    clock = FakeClock()
    shared = SharedRecords(now=clock.now)
    services = seeded_services(seed, clock)
    async with AsyncExitStack() as stack:
        queues = [await _open(stack, shared, services) for _ in range(HANDLES)]
        racers = [_Racer(queue, random.Random(f"{seed} {n}")) for n, queue in enumerate(queues)]
        await asyncio.gather(*(racer.fill() for racer in racers))
        await asyncio.gather(*(racer.meddle() for racer in racers))
        await asyncio.gather(*(racer.drain() for racer in racers * 2))
        acked = Counter(id for racer in racers for id in racer.acked)
        states = Counter([job.state async for job in queues[0].jobs()])
        totals = (await queues[0].stats()).totals
    assert shared.conflicts > 0, "nobody was in anybody's way"
    assert max(acked.values()) == 1, "a job was acknowledged twice"
    assert set(states) <= {State.COMPLETED, State.CANCELLED}
    assert states[State.COMPLETED] == len(acked)
    assert nonzero(totals) == {state.value: count for state, count in states.items()}
    checks = [check async for check in StoredRecords(OptimisticRecords(shared)).run()]
    assert {check.check for check in checks if check.verdict != "ok"} <= NOT_PROMISED, checks


async def _open(stack: AsyncExitStack, shared: SharedRecords, services: Services) -> Queue:
    queue = penstock.open(store=OptimisticRecords(shared, batches_at_once=2), services=services)
    return await stack.enter_async_context(queue)


class _Racer:
    def __init__(self, queue: Queue, luck: random.Random) -> None:
        self.acked: list[str] = []
        self._queue = queue
        self._luck = luck

    async def fill(self) -> None:
        """All put the same ids and keys in, so that most of it is a duplicate."""
        jobs = [
            NewJob("work", id=str(n), key=str(n % 40), retry=AT_ONCE, max_attempts=99)
            for n in range(JOBS)
        ]
        self._luck.shuffle(jobs)
        for start in range(0, JOBS, 7):
            await self._queue.enqueue_many(jobs[start : start + 7])

    async def meddle(self) -> None:
        for _ in range(10):
            jobs = await self._queue.claim(self._luck.randint(1, 4))
            match self._luck.randrange(4):
                case 0:
                    await self._queue.nack(jobs, "boom")
                case 1:
                    await self._queue.cancel([str(self._luck.randrange(JOBS)) for _ in range(3)])
                    await self._queue.release(jobs)
                case 2:
                    await self._queue.pause()
                    await self._queue.resume()
                    await self._queue.release(jobs)
                case _:
                    await self._ack(jobs)

    async def drain(self) -> None:
        while jobs := await self._queue.claim(5):
            await self._ack(jobs)

    async def _ack(self, jobs: list[penstock.Job]) -> None:
        for job, outcome in zip(jobs, await self._queue.ack(jobs), strict=True):
            assert outcome is None or isinstance(outcome, LeaseLost | JobCancelled)
            if outcome is None:
                self.acked.append(job.id)
