"""Tenants: what one does, another neither sees nor meets."""

from __future__ import annotations

import pytest
import pytest_asyncio

from penstock.client.queue import Queue
from penstock.errors import JobNotFound, LeaseLost
from penstock.kernel.job import State
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.handles import Handles
from penstock.testing.conformance.backend.steps import (
    AT_ONCE,
    all_events,
    claim_one,
    claimed,
    completed,
    failed,
    found,
    ids,
    nonzero,
    story,
)


class Tenants:
    @pytest_asyncio.fixture
    async def neighbour(self, queue: Queue, handles: Handles) -> Queue:
        return await handles.open("neighbour")

    async def test_anothers_id_looks_unknown(self, queue: Queue, neighbour: Queue) -> None:
        id = await failed(queue)
        assert await neighbour.get(id) is None
        assert await neighbour.cancel(id) == "not_found"
        assert await neighbour.history(id) == []
        for act in (neighbour.replay, neighbour.archive, neighbour.unarchive):
            with pytest.raises(JobNotFound):
                await act(id)
        assert await story(queue, id) == ["enqueued", "claimed", "failed"]

    async def test_the_same_id_is_two_jobs(self, queue: Queue, neighbour: Queue) -> None:
        assert (await queue.enqueue("work", "mine", id="same")).status == "queued"
        assert (await neighbour.enqueue("work", "theirs", id="same")).status == "queued"
        await queue.cancel("same")
        assert (await found(queue, "same")).state is State.CANCELLED
        job = await claim_one(neighbour)
        assert (job.payload, job.tenant) == ("theirs", "neighbour")

    async def test_a_cached_result_is_not_given_to_another(
        self, queue: Queue, neighbour: Queue
    ) -> None:
        await completed(queue, "secret", id="same")
        receipt = await neighbour.enqueue("work", id="same")
        assert (receipt.status, receipt.result) == ("queued", None)

    async def test_the_same_key_is_held_by_each(self, queue: Queue, neighbour: Queue) -> None:
        mine = await queue.enqueue("work", key="k")
        theirs = await neighbour.enqueue("work", key="k")
        assert (mine.status, theirs.status) == ("queued", "queued")
        await queue.cancel(mine.id)
        assert (await neighbour.enqueue("work", key="k")).id == theirs.id

    async def test_a_claim_takes_ones_own_jobs_only(self, queue: Queue, neighbour: Queue) -> None:
        await queue.enqueue("work", id="mine")
        assert await neighbour.claim(9) == []
        assert await neighbour.claim(9, queues=["default"], types=["work"]) == []
        assert [job.id for job in await queue.claim(9)] == ["mine"]

    async def test_a_lease_of_another_is_worth_nothing(
        self, queue: Queue, neighbour: Queue
    ) -> None:
        await neighbour.enqueue("work", id="same")
        job = await claimed(queue, id="same")
        await claim_one(neighbour)
        for act in (neighbour.ack, neighbour.nack, neighbour.release, neighbour.heartbeat):
            with pytest.raises(LeaseLost):
                await act(job)
        await queue.ack(job)
        assert (await found(neighbour, "same")).state is State.RUNNING

    async def test_listings_and_counts_do_not_cross(self, queue: Queue, neighbour: Queue) -> None:
        await queue.enqueue("work", queue="images")
        await queue.enqueue("work")
        assert await ids(neighbour) == []
        stats = await neighbour.stats()
        assert (nonzero(stats.totals), stats.queues, stats.jobs) == ({}, [], 0)
        await neighbour.enqueue("work")
        assert (await queue.stats()).jobs == 2
        assert nonzero((await neighbour.stats()).totals) == {State.PENDING: 1}

    async def test_events_do_not_cross(self, queue: Queue, neighbour: Queue) -> None:
        await completed(queue, id="mine")
        await neighbour.enqueue("work", id="theirs")
        await queue.configure(result_ttl_seconds=60)
        theirs = await all_events(neighbour)
        assert [event.event for event in theirs] == ["enqueued"]
        assert {event.tenant for event in theirs} == {"neighbour"}
        assert {event.tenant for event in await all_events(queue)} == {"default"}

    async def test_a_pause_does_not_cross(self, queue: Queue, neighbour: Queue) -> None:
        await queue.pause("images")
        await neighbour.enqueue("work", queue="images")
        assert len(await neighbour.claim()) == 1

    async def test_the_fencing_number_grows_over_all_tenants(
        self, queue: Queue, neighbour: Queue, clock: FakeClock
    ) -> None:
        fences = []
        for holder in (queue, neighbour, queue, neighbour):
            # Where positions are times, two handles tell theirs apart by it.
            clock.jump(0.001)
            job = await claimed(holder)
            assert job.lease is not None
            fences.append(job.lease.fence)
        assert len(set(fences)) == len(fences)
        if queue.capabilities.events == "ordered":
            assert fences == sorted(fences)

    async def test_anothers_dead_leases_are_returned_to_them(
        self, queue: Queue, neighbour: Queue, clock: FakeClock
    ) -> None:
        await claimed(queue, id="mine", retry=AT_ONCE)
        await clock.advance(32)
        assert await neighbour.claim(9) == []
        assert (await claim_one(queue)).id == "mine"
