"""Jobs that a clock a day ahead has written to: they are found, and go on in their own time."""

from __future__ import annotations

import pytest

from penstock import NewJob
from penstock.engines.records.tasks import ahead, index
from penstock.engines.records.tasks.names import LEASES, READY, Ready, minute_in, minute_of
from penstock.kernel.commands import Cancel
from penstock.kernel.events import JobEvent
from penstock.kernel.job import State
from penstock.stores.layers.counting import Counting
from penstock.testing.conformance.backend.steps import AT_ONCE, claim_one, claimed, found
from tests.tasks_layout.worlds import World

DAY_SECONDS = 86_400.0


async def written_ahead(world: World, **options: object) -> None:
    """A job that is delayed for nine seconds, by a clock that is a day ahead."""
    world.clock.set_ahead(DAY_SECONDS)
    async with world.open() as queue:
        await queue.enqueue("work", id="late", delay_seconds=9, **options)  # type: ignore[arg-type]
    world.clock.set_ahead(-DAY_SECONDS)


async def test_whoever_opens_such_a_queue_is_warned_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    await written_ahead(world)
    async with world.open() as queue:
        [warning] = [record.getMessage() for record in caplog.records]
        assert "its time is 86400 s ahead" in warning
        await queue.claim()
        await queue.get("late")
    assert len(caplog.records) == 1


async def test_whoever_opens_it_is_warned_until_the_distance_is_made_up_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    await written_ahead(world)
    await world.clock.advance(DAY_SECONDS / 2)
    async with world.open() as queue:
        await queue.enqueue("work")
    await world.clock.advance(DAY_SECONDS / 2)
    async with world.open() as queue:
        await queue.enqueue("work")
    distances = [record.getMessage().split("its time is ")[1] for record in caplog.records]
    assert [text.split()[0] for text in distances] == ["43200", "38880"]
    await world.clock.advance(10 * DAY_SECONDS)
    caplog.clear()
    async with world.open():
        assert not caplog.records


async def test_opening_costs_no_request_for_that() -> None:
    world = World()
    await written_ahead(world)
    store = Counting(world.store)
    async with world.open(store):
        assert store.requests.total == 2, "the marker and the charter"


async def test_the_time_is_noted_every_few_minutes_and_not_with_every_job() -> None:
    world = World()
    store = Counting(world.store)
    async with world.open(store) as queue:
        await queue.enqueue("work")
        before = store.requests
        for _ in range(10):
            await queue.enqueue("work")
        assert store.requests.since(before).puts == 20, "a task and its entry"


async def test_whoever_meets_a_job_from_not_so_far_ahead_is_warned_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    async with world.open() as queue:
        await queue.enqueue("work", delay_seconds=9 * DAY_SECONDS)
    world.clock.set_ahead(200)
    async with world.open() as queue:
        await queue.enqueue("work", id="late", delay_seconds=9)
    world.clock.set_ahead(-200)
    async with world.open() as queue:
        await queue.claim()
        await queue.claim()
    [warning] = [record.getMessage() for record in caplog.records]
    assert "job late" in warning
    assert "its time is 200 s ahead" in warning


async def test_its_entry_is_filed_by_the_clock_and_leaves_with_its_stretch() -> None:
    world = World()
    await written_ahead(world)
    async with world.open() as queue:
        assert await queue.claim() == []
    [entry] = await world.keys(READY)
    assert minute_in(entry) == minute_of(world.clock.now() + 10)
    assert not await world.troubles()
    await world.clock.advance(10)
    async with world.open() as queue:
        job = await claim_one(queue)
        await queue.ack(job)
    assert await world.keys(READY) == []
    assert await world.keys(LEASES) == []


async def test_a_job_that_was_met_is_not_read_again_with_every_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.clock.set_ahead(DAY_SECONDS)
    async with world.open() as queue:
        await queue.enqueue("work", id="late", delay_seconds=3 * DAY_SECONDS)
    world.clock.set_ahead(-DAY_SECONDS)
    met: list[str] = []
    meet = ahead.Ahead._meet

    async def counted(self: ahead.Ahead, entry: Ready) -> object:
        met.append(entry.name)
        return await meet(self, entry)

    monkeypatch.setattr(ahead.Ahead, "_meet", counted)
    async with world.open() as queue:
        for _ in range(5):
            assert await queue.claim() == []
            await world.clock.advance(2)
    assert len(met) == 2, "once to file it anew, once to see that it is right now"


async def test_a_lease_that_such_a_clock_gave_dies_in_its_time_after_it_was_extended() -> None:
    world = World()
    world.clock.set_ahead(DAY_SECONDS)
    async with world.open() as queue:
        job = await claimed(queue, id="job", retry=AT_ONCE)
    world.clock.set_ahead(-DAY_SECONDS)
    async with world.open() as queue:
        await queue.heartbeat(job)
        await world.clock.advance(30)
        assert await queue.expire() == 0
        await world.clock.advance(6)
        assert await queue.expire() == 1


async def test_in_an_index_too_large_to_be_read_whole_the_sweeper_finds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(index, "WHOLE_ENTRIES_MAX", 1)
    world = World()
    await written_ahead(world)
    async with world.open() as queue:
        await queue.enqueue_many([NewJob("other", delay_seconds=60) for _ in range(3)])
        await queue.repair()
        await world.clock.advance(11)
        assert (await claim_one(queue)).id == "late"


async def test_a_key_that_such_a_clock_took_is_free_in_its_time() -> None:
    world = World()
    await written_ahead(world, key="key", unique_seconds=60)
    async with world.open() as queue:
        assert (await queue.enqueue("work", id="other", key="key")).status == "duplicate"
        await queue.cancel("late")
        assert (await queue.enqueue("work", id="other", key="key")).status == "duplicate"
        await world.clock.advance(70)
        assert (await queue.enqueue("work", id="other", key="key")).status == "queued"
        assert (await found(queue, "late")).state is State.CANCELLED


async def test_a_command_that_came_before_the_last_put_is_not_from_a_clock_set_back() -> None:
    world = World()
    async with world.open() as queue:
        job = await claimed(queue, id="job")
        asked_at = world.clock.now()
        await world.clock.advance(20)
        await queue.heartbeat(job)
        turns = queue._backend._engine._turns  # type: ignore[attr-defined]
        kept = await turns.read("default", "job")
        decision, _, _ = await turns._decided(Cancel("default", ["job"]), kept.document, asked_at)
        assert decision.stamp.lagging_clock is None
        assert decision.stamp.at == world.clock.now()


@pytest.mark.parametrize("is_known", [False, True], ids=["unknown", "known before"])
async def test_a_reader_that_goes_on_from_a_position_of_the_future_misses_nothing(
    is_known: bool,
) -> None:
    world = World()
    async with world.open() as queue:
        await queue.enqueue("work", id="before")
        if is_known:
            await queue.enqueue("work", id="after")
    await world.clock.advance(60)
    world.clock.set_ahead(DAY_SECONDS)
    async with world.open() as queue:
        await queue.enqueue("work", id="ahead")
        told = [event async for event in queue.events("beginning", follow=False)]
    reached = max(event.position for event in told)
    await world.clock.advance(60)
    world.clock.set_ahead(-DAY_SECONDS)
    async with world.open() as queue, world.open() as other:
        await other.enqueue("work", id="after")
        [job] = await other.claim(types=["work"])
        await other.ack(job)
        news = [event async for event in queue.events(reached, follow=False)]
    had = {(event.id, event.position) for event in told if isinstance(event, JobEvent)}
    new = [event for event in news if isinstance(event, JobEvent)]
    names = [(one.id, one.event) for one in new if (one.id, one.position) not in had]
    assert {(job.id, "claimed"), (job.id, "completed")} <= set(names)
    assert is_known or ("after", "enqueued") in names


async def test_it_is_told_again_only_what_came_since_the_clock_was_set_back() -> None:
    world = World()
    async with world.open() as queue:
        await queue.enqueue("work", id="before")
    await world.clock.advance(3_600)
    await written_ahead(world)
    async with world.open() as queue:
        [*_, last] = [event async for event in queue.events("beginning", follow=False)]
        await queue.enqueue("work", id="after")
        news = [event async for event in queue.events(last.position, follow=False)]
    ids = {event.id for event in news if isinstance(event, JobEvent)}
    assert "after" in ids
    assert "before" not in ids


async def test_a_command_that_was_slept_over_is_decided_as_of_now() -> None:
    world = World()
    async with world.open() as queue:
        await queue.enqueue("work", id="job")
        asked_at = world.clock.now()
        await world.clock.advance(4_000)
        turns = queue._backend._engine._turns  # type: ignore[attr-defined]
        kept = await turns.read("default", "job")
        decision, _, _ = await turns._decided(Cancel("default", ["job"]), kept.document, asked_at)
        assert decision.stamp.at > world.clock.now() - 120
