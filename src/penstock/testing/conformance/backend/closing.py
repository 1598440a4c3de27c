"""Beginnings and ends: what was accepted is there when the queue is opened again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.client.newjob import NewJob
from penstock.client.queue import Queue
from penstock.errors import NotOpen, QueueClosed
from penstock.kernel.job import Job, State
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.handles import Handles
from penstock.testing.conformance.backend.steps import (
    claim_one,
    claimed,
    completed,
    found,
    ids,
    meanwhile,
    story,
    take,
)

USES: dict[str, Callable[[Queue, Job], Awaitable[Any]]] = {
    "enqueue": lambda queue, job: queue.enqueue("work"),
    "enqueue_many": lambda queue, job: queue.enqueue_many([NewJob("work")]),
    "call": lambda queue, job: queue.call("work"),
    "claim": lambda queue, job: queue.claim(),
    "waiting claim": lambda queue, job: queue.claim(wait_seconds=60),
    "heartbeat": lambda queue, job: queue.heartbeat(job),
    "ack": lambda queue, job: queue.ack(job),
    "nack": lambda queue, job: queue.nack(job, "boom"),
    "release": lambda queue, job: queue.release(job),
    "cancel": lambda queue, job: queue.cancel(job.id),
    "get": lambda queue, job: queue.get(job.id),
    "history": lambda queue, job: queue.history(job.id),
    "stats": lambda queue, job: queue.stats(),
    "jobs": lambda queue, job: ids(queue),
    "events": lambda queue, job: take(queue, 1),
    "pause": lambda queue, job: queue.pause(),
    "expire": lambda queue, job: queue.expire(),
    "configure": lambda queue, job: queue.configure(result_ttl_seconds=1),
    "vacuum": lambda queue, job: queue.vacuum(),
}


class Closing:
    @pytest.mark.parametrize("use", USES.values(), ids=USES)
    async def test_a_closed_queue_says_so(
        self, queue: Queue, use: Callable[[Queue, Job], Awaitable[Any]]
    ) -> None:
        job = await claimed(queue)
        await queue.close()
        with pytest.raises(QueueClosed) as refused:
            await use(queue, job)
        assert not isinstance(refused.value, NotOpen)

    async def test_a_queue_that_was_not_opened_yet_says_so(self, handles: Handles) -> None:
        queue = handles.make()
        job = Job("a", "default", "default", "work", 0, 0.0, 0.0)
        for use in ("enqueue", "call", "claim", "get", "jobs", "events", "stats", "configure"):
            with pytest.raises(NotOpen, match="async with"):
                await USES[use](queue, job)

    async def test_closing_twice_is_closing_once(self, queue: Queue) -> None:
        await queue.close()
        await queue.close()
        with pytest.raises(QueueClosed):
            await queue.stats()

    async def test_a_closed_queue_cannot_be_started_again(self, queue: Queue) -> None:
        await queue.close()
        for _ in range(2):
            with pytest.raises(QueueClosed, match=r"open it again with `penstock.open") as refused:
                await queue.start()
            assert not isinstance(refused.value, NotOpen)
        await queue.close()

    async def test_what_was_asked_before_closing_is_answered(self, queue: Queue) -> None:
        async with meanwhile(queue.enqueue("work")) as last:
            await queue.close()
        assert last.result().status == "queued"

    async def test_who_follows_events_is_told_that_the_queue_was_closed(self, queue: Queue) -> None:
        async def follow() -> None:
            with pytest.raises(QueueClosed):
                await take(queue, 1)

        async with meanwhile(follow()) as following:
            await queue.stats()
            await queue.close()
        assert following.done()

    async def test_a_claim_that_waits_is_told_that_the_queue_was_closed(self, queue: Queue) -> None:
        async def claim() -> None:
            with pytest.raises(QueueClosed):
                await queue.claim(wait_seconds=600)

        async with meanwhile(claim()) as claiming:
            await queue.stats()
            await queue.close()
        assert claiming.done()

    async def test_who_waits_for_a_call_is_told_that_the_queue_was_closed(
        self, queue: Queue
    ) -> None:
        async def call() -> None:
            with pytest.raises(QueueClosed):
                await queue.call("work")

        async with meanwhile(call()) as calling:
            await claim_one(queue, wait_seconds=20)
            await queue.close()
        assert calling.done()

    async def test_everything_is_there_when_the_queue_is_opened_again(
        self, queue: Queue, handles: Handles, clock: FakeClock
    ) -> None:
        _require_durable(queue)
        done = await completed(queue, {"ok": True}, payload={"n": 1}, key="k", unique_seconds=60)
        await queue.enqueue("work", id="scheduled", delay_seconds=60)
        await queue.enqueue("work", id="waiting", priority=-1, meta={"a": 1})
        await queue.pause("images")
        await queue.configure(result_ttl_seconds=100)
        before = [job async for job in queue.jobs()], await queue.stats()
        await queue.close()
        again = await handles.open()
        assert ([job async for job in again.jobs()], await again.stats()) == before
        assert again.settings.result_ttl_seconds == 100
        assert (await found(again, done)).result == {"ok": True}
        assert (await again.enqueue("work", key="k")).id == done
        assert [job.id for job in await again.claim(9)] == ["waiting"]
        await clock.advance(60)
        assert [job.id for job in await again.claim(9)] == ["scheduled"]
        assert await story(again, done) == ["enqueued", "claimed", "completed"]

    async def test_a_lease_outlives_the_handle_that_gave_it(
        self, queue: Queue, handles: Handles
    ) -> None:
        _require_durable(queue)
        job = await claimed(queue)
        await queue.close()
        again = await handles.open()
        assert await again.claim() == []
        await again.ack(job, "done elsewhere")
        assert (await found(again, job.id)).state is State.COMPLETED

    async def test_events_go_on_where_they_were_when_the_queue_is_opened_again(
        self, queue: Queue, handles: Handles
    ) -> None:
        _require_durable(queue)
        await completed(queue)
        seen = await take(queue, 2)
        await queue.close()
        again = await handles.open()
        [end] = await take(again, 1, since=seen[-1].position)
        assert (end.event, end.position > seen[-1].position) == ("completed", True)

    async def test_a_caller_that_gave_up_does_not_stop_the_others(self, queue: Queue) -> None:
        async with meanwhile(queue.enqueue("work", id="given up")) as given_up:
            given_up.cancel()
            others = await asyncio.gather(*(queue.enqueue("work") for _ in range(5)))
        assert [receipt.status for receipt in others] == ["queued"] * 5


def _require_durable(queue: Queue) -> None:
    if queue.capabilities.durability == "none":
        pytest.skip("this backend forgets when it is closed")
