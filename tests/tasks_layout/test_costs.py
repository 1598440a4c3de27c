"""What does not change is not read: repair, counts and vacuum cost as much as there is news."""

from __future__ import annotations

import pytest

from penstock import NewJob, Queue
from penstock.engines.records.tasks import known
from penstock.engines.records.tasks.names import READY, SUMMARIES, summary_key
from penstock.kernel.job import State
from penstock.kernel.settings import DAY_SECONDS
from penstock.ports.backend import IndexReport
from penstock.ports.store import Overwrite
from penstock.stores.layers.counting import Counting, Requests
from penstock.testing.conformance.backend.steps import claim_one, nonzero
from tests.tasks_layout.worlds import World

IDLE_JOBS = 1_000
REPAIR_SECONDS = 300
"""How often a monitor repairs, and here also counts; it vacuums every hour."""
VACUUM_SECONDS = 3_600
REQUESTS_A_DAY_MAX = 5_000
"""Beside listing, whatever the number of idle jobs."""
SETTLED_SECONDS = known.SETTLED_SECONDS + 1


async def enqueue_idle(world: World, queue: Queue, jobs: int = IDLE_JOBS) -> None:
    await queue.enqueue_many([NewJob("idle", delay_seconds=9 * DAY_SECONDS) for _ in range(jobs)])
    await world.clock.advance(SETTLED_SECONDS)


def beside_listing(requests: Requests) -> int:
    return requests.total - requests.lists


async def test_a_day_of_idle_jobs_costs_no_more_than_its_housekeeping() -> None:
    world = World()
    store = Counting(world.store)
    async with world.open(store) as queue:
        await enqueue_idle(world, queue)
        assert await queue.repair() == IndexReport(tasks=IDLE_JOBS)
        before = store.requests
        for seconds in range(0, int(DAY_SECONDS), REPAIR_SECONDS):
            await world.clock.advance(REPAIR_SECONDS)
            assert await queue.repair() == IndexReport(tasks=IDLE_JOBS)
            assert (await queue.stats()).jobs == IDLE_JOBS
            if seconds % VACUUM_SECONDS == 0:
                await queue.vacuum()
        spent = store.requests.since(before)
    assert beside_listing(spent) <= REQUESTS_A_DAY_MAX


async def test_a_look_reads_what_has_changed_since_the_last_one() -> None:
    world = World()
    store = Counting(world.store)
    async with world.open(store) as queue:
        await enqueue_idle(world, queue, 100)
        await queue.stats()
        await queue.enqueue_many([NewJob("work") for _ in range(3)])
        await world.clock.advance(SETTLED_SECONDS)
        before = store.requests
        assert nonzero((await queue.stats()).totals) == {State.PENDING: 103}
        # The charter, and what is new.
        assert store.requests.since(before).gets == 1 + 3
        await claim_one(queue, types=["work"])
        before = store.requests
        assert nonzero((await queue.stats()).totals) == {State.PENDING: 102, State.RUNNING: 1}
        assert store.requests.since(before).gets == 1 + 1


async def test_a_process_that_starts_anew_reads_what_has_changed_since_the_summary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(known, "SUMMARY_TASKS_MIN", 100)
    world = World()
    async with world.open() as queue:
        await enqueue_idle(world, queue, 400)
        await queue.repair()
        await queue.enqueue_many([NewJob("work") for _ in range(3)])
    summaries = await world.keys(SUMMARIES)
    store = Counting(world.store)
    async with world.open(store) as queue:
        before = store.requests
        assert nonzero((await queue.stats()).totals) == {State.PENDING: 403}
        assert store.requests.since(before).gets == 1 + len(summaries) + 3
        before = store.requests
        assert (await queue.repair()).tasks == 403
        assert store.requests.since(before).gets < 10


async def test_a_summary_is_put_again_only_where_much_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(known, "SUMMARY_TASKS_MIN", 100)
    world = World()
    store = Counting(world.store)
    async with world.open(store) as queue:
        await enqueue_idle(world, queue, 400)
        await queue.repair()
        await queue.enqueue("work")
        await world.clock.advance(known.SUMMARY_SECONDS)
        await queue.repair()
        before = store.requests
        await world.clock.advance(known.SUMMARY_SECONDS)
        await queue.repair()
        # What time it is, and nothing else.
        assert store.requests.since(before).puts == 1


async def test_a_summary_that_somebody_has_altered_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(known, "SUMMARY_TASKS_MIN", 100)
    world = World()
    async with world.open() as queue:
        await enqueue_idle(world, queue, 400)
        await queue.repair()
    for key in await world.keys(SUMMARIES):
        data = (await world.store.get(key)).data
        await world.store.put(key, data.replace(b'"pending"', b'"running"'), Overwrite())
    await world.store.put(summary_key("0"), b"{}", Overwrite())
    async with world.open() as queue:
        assert nonzero((await queue.stats()).totals) == {State.PENDING: 400}


async def test_an_entry_that_goes_missing_is_put_again_although_its_task_has_not_changed() -> None:
    world = World()
    async with world.open() as queue:
        await enqueue_idle(world, queue, 20)
        await queue.repair()
        [first, second, *_] = await world.keys(READY)
        await world.store.delete(first)
        await world.store.put(second.replace("-00", "-01", 1), b"", Overwrite())
        assert (await queue.repair()).added == 1
        assert first in await world.keys(READY)
        await world.clock.advance(VACUUM_SECONDS)
        await queue.repair()
    assert await world.troubles() == {}


async def test_a_scan_reads_no_task_a_second_time_that_has_not_changed() -> None:
    world = World()
    store = Counting(world.store)
    async with world.open(store, index="scan") as queue:
        await enqueue_idle(world, queue, 50)
        assert await queue.claim() == []
        before = store.requests
        assert await queue.claim() == []
        assert store.requests.since(before).gets <= 1
        await queue.enqueue("work")
        assert (await claim_one(queue)).type == "work"
