"""A call that is made again is the same call, whatever has become of its job meanwhile.

The retry finds nothing of its job, and before it writes the first attempt comes, runs, ends and
leaves. No record tells of that any more; what is remembered of the id does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

import penstock
from penstock import Queue
from penstock.ports.records import Ask, Change, Decide
from penstock.testing.clock import FakeClock, turns
from penstock.testing.conformance.backend.steps import nonzero
from penstock.testing.factories import seeded_services
from penstock.testing.optimistic_records import OptimisticRecords, SharedRecords

Meanwhile = Callable[[Change], Awaitable[bool]]
"""What happens between deciding and writing, and whether to write at all."""


class SlowRecords(OptimisticRecords):
    meanwhile: Meanwhile | None = None

    async def turn(self, ask: Ask, decide: Decide, *, is_read: bool) -> bool:
        meanwhile, self.meanwhile = self.meanwhile, None
        if is_read or meanwhile is None:
            return await super().turn(ask, decide, is_read=is_read)
        change = decide(self._find(ask(await self.head())))
        assert change is not None
        if not await meanwhile(change) or not self._is_as_found(change):
            return False
        self._write(change)
        return True


@pytest.fixture
async def handles() -> AsyncIterator[tuple[SlowRecords, Queue, Queue]]:
    """A store that can be slow, the queue that goes by it, and one that is quick."""
    clock, shared = FakeClock(), SharedRecords()
    slow = SlowRecords(shared)
    async with AsyncExitStack() as stack:
        queues = [
            await stack.enter_async_context(
                penstock.open(store=store, services=seeded_services(seed, clock))
            )
            for seed, store in enumerate([slow, OptimisticRecords(shared)])
        ]
        await queues[1].configure(result_ttl_seconds=0)
        yield slow, queues[0], queues[1]


async def lived(queue: Queue, id: str, operation: str) -> None:
    """The whole life of a job that a call begins, until nothing is left of it."""
    receipt = await queue.enqueue("work", id=id, operation=operation)
    assert receipt.status == "queued"
    await queue.ack(await queue.claim())
    assert await queue.get(id) is None


async def test_a_retry_does_not_double_a_call_that_came_and_went_meanwhile(
    handles: tuple[SlowRecords, Queue, Queue],
) -> None:
    slow, retrying, first = handles

    async def meanwhile(change: Change) -> bool:
        await lived(first, "job", "call")
        return True

    slow.meanwhile = meanwhile
    receipt = await retrying.enqueue("work", id="job", operation="call")
    assert receipt.status == "duplicate"
    assert nonzero((await first.stats()).totals) == {"completed": 1}


async def test_a_first_attempt_that_lingers_does_not_double_its_retry(
    handles: tuple[SlowRecords, Queue, Queue],
) -> None:
    """Its id was made for it alone, but its caller was told that and has called again by it."""
    slow, lingering, retrying = handles

    async def meanwhile(change: Change) -> bool:
        id = change.puts[0].record.id
        call.cancel()
        await turns(1)
        await lived(retrying, id, id)
        return False

    slow.meanwhile = meanwhile
    call = asyncio.ensure_future(lingering.enqueue("work"))
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await lingering.claim()) == []
    assert nonzero((await retrying.stats()).totals) == {"completed": 1}


async def test_another_call_of_the_id_begins_a_new_life_all_the_same(
    handles: tuple[SlowRecords, Queue, Queue],
) -> None:
    slow, later, first = handles

    async def meanwhile(change: Change) -> bool:
        await lived(first, "job", "call")
        return True

    slow.meanwhile = meanwhile
    receipt = await later.enqueue("work", id="job", operation="another call")
    assert receipt.status == "queued"
    assert nonzero((await first.stats()).totals) == {"completed": 1, "pending": 1}
