"""An id that is used again while vacuum lets its old job go: what was accepted is never deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import pytest

from penstock import Queue
from penstock.engines.records.tasks.names import TASKS
from penstock.kernel.job import State
from penstock.kernel.settings import DAY_SECONDS
from penstock.ports.store import Entry, PutMode, StoredObject, Written
from penstock.stores.layers.layer import Layer
from penstock.testing.conformance.backend.steps import claim_one, completed, found, nonzero
from tests.tasks_layout.worlds import World

T = TypeVar("T")

LOOKS_MADE = "0190a6e5-7d3c-7abc-8def-0123456789ab"
"""An id of the caller's own that looks like those of penstock."""
REQUESTS_MAX = 30
"""A vacuum of one job has fewer."""
OTHERS_RUN = 300
"""How often others get to run before a request goes on: an enqueue has fewer awaits."""


class Moments(Layer):
    """A store with whose n-th request, from when it is told on, something happens."""

    def __init__(self, world: World) -> None:
        super().__init__(world.store)
        self.left: int | None = None
        self.before: Callable[[], Awaitable[None]] | None = None
        self.after: Callable[[], Awaitable[None]] | None = None

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        return await self._happen(lambda: super(Moments, self).put(key, data, mode))

    async def get(self, key: str) -> StoredObject:
        return await self._happen(lambda: super(Moments, self).get(key))

    async def delete(self, key: str) -> None:
        await self._happen(lambda: super(Moments, self).delete(key))

    async def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        async def listed() -> list[Entry]:
            return [entry async for entry in super(Moments, self).list(prefix, start_after)]

        for entry in await self._happen(listed):
            yield entry

    async def _happen(self, request: Callable[[], Awaitable[T]]) -> T:
        is_now = self.left == 0
        if self.left is not None:
            self.left -= 1
        if is_now and self.before is not None:
            await self.before()
        answer = await request()
        if is_now and self.after is not None:
            await self.after()
        return answer


class Again:
    """Somebody who enqueues the same id once more, and is not waited for very long."""

    def __init__(self, queue: Queue, id: str) -> None:
        self._queue = queue
        self._id = id
        self._task: asyncio.Task[object] | None = None

    async def begin(self) -> None:
        self._task = asyncio.create_task(self._queue.enqueue("again", id=self._id))
        for _ in range(OTHERS_RUN):
            await asyncio.sleep(0)

    @property
    def has_begun(self) -> bool:
        return self._task is not None

    async def end(self) -> None:
        assert self._task is not None
        await self._task


@pytest.mark.parametrize("id", [LOOKS_MADE, None], ids=["an id of the caller", "an id made here"])
async def test_a_job_that_comes_at_any_moment_of_a_vacuum_stays(id: str | None) -> None:
    for moment in range(REQUESTS_MAX):
        # Time does not jump here: that of a vacuum which stands still for minutes is another's.
        world = World()
        store = Moments(world)
        async with world.open(store) as vacuuming, world.open() as queue:
            job = await completed(queue, id=id)
            await world.clock.advance(9 * DAY_SECONDS)
            again = Again(queue, job)
            store.left, store.before = moment, again.begin
            await vacuuming.vacuum()
            store.left = None
            if not again.has_begun:
                break
            await again.end()
            await vacuuming.vacuum()
            assert (await found(queue, job)).state is State.PENDING, f"at request {moment}"
            assert (await claim_one(queue)).id == job
            totals = nonzero((await queue.stats()).totals)
            assert totals == {State.COMPLETED: 1, State.RUNNING: 1}, f"at request {moment}"
    else:
        raise AssertionError("there are more moments than that")


@pytest.mark.parametrize("is_applied", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("id", [LOOKS_MADE, None], ids=["an id of the caller", "an id made here"])
async def test_after_a_vacuum_that_died_at_any_moment_a_job_comes_and_stays(
    id: str | None, is_applied: bool
) -> None:
    async def die() -> None:
        raise RuntimeError("killed")

    for moment in range(REQUESTS_MAX):
        world = World(autojump=True)
        store = Moments(world)
        async with world.open(store) as vacuuming, world.open() as queue:
            job = await completed(queue, id=id)
            await world.clock.advance(9 * DAY_SECONDS)
            store.left = moment
            if is_applied:
                store.after = die
            else:
                store.before = die
            try:
                await vacuuming.vacuum()
            except RuntimeError:
                pass
            else:
                break
            store.left = None
            assert nonzero((await queue.stats()).totals) == {State.COMPLETED: 1}
            await queue.enqueue("again", id=job)
            await vacuuming.vacuum()
            assert (await claim_one(queue)).id == job, f"at request {moment}"
            totals = nonzero((await queue.stats()).totals)
            assert totals == {State.COMPLETED: 1, State.RUNNING: 1}, f"at request {moment}"
    else:
        raise AssertionError("there are more moments than that")


async def test_two_vacuums_at_once_count_everything_once_and_leave_nothing() -> None:
    world = World(autojump=True)
    async with world.open() as one, world.open() as other:
        for _ in range(20):
            await completed(one)
        await world.clock.advance(9 * DAY_SECONDS)
        await asyncio.gather(one.vacuum(), other.vacuum())
        assert await world.keys(TASKS) == []
        assert nonzero((await one.stats()).totals) == {State.COMPLETED: 20}


async def test_an_id_that_looks_like_one_of_ours_is_not_taken_for_one() -> None:
    world = World(autojump=True)
    async with world.open() as queue:
        await completed(queue, id=LOOKS_MADE)
        await completed(queue)
        await world.clock.advance(9 * DAY_SECONDS)
        assert (await queue.vacuum()).log_objects == 2
        [kept] = await world.keys(TASKS)
        assert LOOKS_MADE in kept
