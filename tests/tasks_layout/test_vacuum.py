"""What has outlived its retention goes, what somebody needs stays, and all of it stays counted."""

from __future__ import annotations

import asyncio

import pytest

from penstock.engines.names import DATA
from penstock.engines.records.tasks.names import TASKS
from penstock.engines.records.tasks.positions import position_at
from penstock.errors import Gap
from penstock.kernel.departures import REMEMBERED_SECONDS
from penstock.kernel.job import State
from penstock.kernel.settings import DAY_SECONDS
from penstock.ports.store import Replace
from penstock.testing.conformance.backend.steps import claim_one, completed, found, nonzero, story
from tests.tasks_layout.worlds import World

HANG_SECONDS = 30.0


async def test_a_task_of_an_id_made_here_is_deleted_and_still_counted() -> None:
    world = World()
    async with world.open() as queue:
        job = await completed(queue)
        await queue.enqueue("work", id="live")
        await world.clock.advance(DAY_SECONDS)
        assert (await queue.vacuum()).log_objects == 0, "its history is still wanted"
        await world.clock.advance(8 * DAY_SECONDS)
        assert (await queue.vacuum()).log_objects == 1
        assert len(await world.keys(TASKS)) == 1
        stats = await queue.stats()
        assert (nonzero(stats.totals), stats.jobs) == ({State.COMPLETED: 1, State.PENDING: 1}, 1)
        assert await story(queue, job) == []
    assert await world.troubles() == {}


async def test_a_task_of_an_id_that_somebody_chose_is_emptied_and_can_live_again() -> None:
    world = World()
    async with world.open() as queue:
        await completed(queue, id="invoice")
        await world.clock.advance(9 * DAY_SECONDS)
        assert (await queue.vacuum()).log_objects == 1
        assert (await queue.vacuum()).log_objects == 0
        assert await story(queue, "invoice") == []
        assert (await queue.enqueue("work", id="invoice")).status == "queued"
        assert nonzero((await queue.stats()).totals) == {State.COMPLETED: 1, State.PENDING: 1}


async def test_events_that_a_registered_reader_has_not_had_stay() -> None:
    world = World()
    async with world.open() as queue:
        first = await completed(queue)
        [*_, end] = [event async for event in queue.events("beginning", follow=False)]
        await queue.move_consumer("reader", end.position - 1)
        await world.clock.advance(9 * DAY_SECONDS)
        assert (await queue.vacuum()).log_objects == 0
        assert len(await story(queue, first)) == 3
        await queue.move_consumer("reader", end.position + 1)
        assert (await queue.vacuum()).log_objects == 1


async def test_a_task_that_was_put_late_stays_until_readers_have_moved_since() -> None:
    world = World()
    async with world.open() as queue:
        await completed(queue)
        [key] = await world.keys(TASKS)
        await world.clock.advance(9 * DAY_SECONDS)
        await queue.move_consumer("reader", position_at(world.clock.now()))
        stored = await world.store.get(key)
        # Its last put arrives only now, and that reader has passed it.
        await world.store.put(key, stored.data, Replace(stored.version))
        await world.clock.advance(DAY_SECONDS)
        assert (await queue.vacuum()).log_objects == 0
        await queue.move_consumer("reader", position_at(world.clock.now()))
        assert (await queue.vacuum()).log_objects == 1


async def test_a_reader_that_comes_too_late_is_told_so() -> None:
    world = World()
    async with world.open() as queue:
        await completed(queue)
        [first, *_] = [event async for event in queue.events("beginning", follow=False)]
        await world.clock.advance(9 * DAY_SECONDS)
        await queue.vacuum()
        with pytest.raises(Gap):
            _ = [event async for event in queue.events(first.position, follow=False)]


async def test_a_reader_that_vacuum_overtakes_in_the_middle_is_told_so() -> None:
    world = World()
    async with world.open() as queue:
        reading = queue.events("beginning")
        await queue.enqueue("work", id="first")
        assert (await anext(reading)).event == "enqueued"
        job = await claim_one(queue)
        await queue.ack(job)
        await world.clock.advance(9 * DAY_SECONDS)
        assert (await queue.vacuum()).log_objects == 1
        with pytest.raises(Gap):
            async with asyncio.timeout(HANG_SECONDS):
                _ = [await anext(reading) for _ in range(3)]


@pytest.mark.parametrize("id", ["chosen", None], ids=["a chosen id", "an id made here"])
async def test_a_call_is_known_for_a_while_after_its_job_has_left_whatever_vacuum_does(
    id: str | None,
) -> None:
    world = World()
    hour = 3_600
    async with world.open(result_ttl_seconds=hour, log_retention_seconds=hour) as queue:
        again = {"id": id, "operation": "the call"}
        job = await completed(queue, **again)
        await world.clock.advance(hour + 60)
        assert await queue.get(job) is None
        assert (await queue.vacuum()).log_objects == 0
        assert (await queue.enqueue("work", **again)).status == "duplicate"  # type: ignore[arg-type]
        await world.clock.advance(REMEMBERED_SECONDS)
        assert (await queue.vacuum()).log_objects == 1
        assert (await queue.enqueue("work", **again)).status == "queued"  # type: ignore[arg-type]


async def test_the_payload_of_a_completed_job_is_there_as_long_as_the_job_is() -> None:
    world = World()
    async with world.open(result_ttl_seconds=30 * DAY_SECONDS) as queue:
        job = await completed(queue, payload={"n": 1})
        for day in (1, 9, 9):
            await world.clock.advance(day * DAY_SECONDS)
            await queue.vacuum()
        assert (await found(queue, job)).payload == {"n": 1}


async def test_a_vacuum_that_died_is_finished_by_the_next_and_counts_once() -> None:
    world = World(autojump=True)
    async with world.open() as queue:
        for _ in range(3):
            await completed(queue)
        await world.clock.advance(9 * DAY_SECONDS)
        deleted: list[str] = []

        async def die(key: str) -> None:
            deleted.append(key)
            raise RuntimeError("killed")

        delete, world.store.delete = world.store.delete, die  # type: ignore[method-assign]
        with pytest.raises(RuntimeError):
            await queue.vacuum()
        world.store.delete = delete  # type: ignore[method-assign]
        assert deleted
        assert nonzero((await queue.stats()).totals) == {State.COMPLETED: 3}
        await queue.vacuum()
        assert await world.keys(TASKS) == []
        assert nonzero((await queue.stats()).totals) == {State.COMPLETED: 3}


async def test_side_objects_that_nobody_names_go_after_their_publication_was_forbidden() -> None:
    world = World()
    async with world.open(offload=True, payload_bytes_max=100) as queue:
        await queue.enqueue("work", "x" * 200, id="job")
        await queue._backend.keep("nobody", b"y" * 200)
        await world.clock.advance(9 * DAY_SECONDS)
        assert (await queue.vacuum()).data_objects == 0, "somebody may still publish it"
        await world.clock.advance(3600)
        assert (await queue.vacuum()).data_objects == 1
        [kept] = await world.keys(DATA)
        assert "/job/" in f"/{kept}"
        [job] = await queue.claim()
        assert job.payload == "x" * 200
