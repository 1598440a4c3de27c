"""Paused queues: they take jobs and give none."""

from __future__ import annotations

from penstock.client.queue import Queue
from penstock.kernel.job import State
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.handles import Handles
from penstock.testing.conformance.backend.steps import (
    AT_ONCE,
    all_events,
    claim_one,
    claimed,
    found,
    names,
)


class Pausing:
    async def test_nothing_is_claimed_from_a_paused_queue(self, queue: Queue) -> None:
        await queue.pause("images")
        await queue.enqueue("work", queue="images", id="first")
        await queue.enqueue("work", queue="mail", id="second")
        assert [job.id for job in await queue.claim(9)] == ["second"]
        assert await queue.claim(9, queues=["images"]) == []

    async def test_a_resumed_queue_gives_its_jobs_in_order(self, queue: Queue) -> None:
        for n in range(3):
            await queue.enqueue("work", id=str(n))
        await queue.pause()
        assert await queue.claim(9) == []
        await queue.resume()
        assert [job.id for job in await queue.claim(9)] == ["0", "1", "2"]

    async def test_what_runs_in_a_paused_queue_goes_on(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        job = await claimed(queue)
        await queue.pause()
        await clock.advance(20)
        await queue.heartbeat(job)
        await queue.ack(job, "done")
        assert (await found(queue, job.id)).state is State.COMPLETED

    async def test_what_expires_in_a_paused_queue_waits_there(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        job = await claimed(queue, retry=AT_ONCE)
        await queue.pause()
        await clock.advance(60)
        assert await queue.claim() == []
        assert (await found(queue, job.id)).state is State.PENDING
        await queue.resume()
        assert (await claim_one(queue)).id == job.id

    async def test_pausing_and_resuming_twice_is_doing_it_once(self, queue: Queue) -> None:
        for act in (queue.pause, queue.pause, queue.resume, queue.resume):
            await act("images")
        assert names(await all_events(queue)) == ["paused", "resumed"]

    async def test_the_stats_say_which_queues_are_paused(self, queue: Queue) -> None:
        await queue.enqueue("work", queue="mail")
        await queue.pause("images")
        stats = {one.queue: one.paused for one in (await queue.stats()).queues}
        assert stats == {"images": True, "mail": False}

    async def test_a_queue_that_never_had_a_job_is_forgotten_when_it_is_resumed(
        self, queue: Queue, handles: Handles
    ) -> None:
        await queue.pause("images")
        assert [one.queue for one in (await queue.stats()).queues] == ["images"]
        await queue.resume("images")
        assert (await queue.stats()).queues == []

    async def test_a_pause_holds_for_every_handle(self, queue: Queue, handles: Handles) -> None:
        other = await handles.open()
        await queue.enqueue("work")
        await queue.pause()
        if queue.capabilities.pause == "strict":
            assert await other.claim() == []
        await other.resume()
        assert len(await queue.claim()) == 1
