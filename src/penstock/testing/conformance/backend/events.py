"""Events: everything that happens, in order, from any position on, and live."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import pytest

from penstock.client.newjob import NewJob
from penstock.client.queue import Queue
from penstock.errors import Gap, InvalidInput
from penstock.kernel.events import Event
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.handles import Handles
from penstock.testing.conformance.backend.steps import (
    AT_ONCE,
    HANG_SECONDS,
    all_events,
    claim_one,
    claimed,
    completed,
    is_told_again,
    meanwhile,
    names,
    take,
)

OVERTAKEN = 30
HOUR_SECONDS = 3600.0


class Events:
    async def test_events_can_be_read_from_the_beginning(self, queue: Queue) -> None:
        job = await claimed(queue, id="job")
        await queue.heartbeat(job)
        await queue.heartbeat(job, progress=0.5)
        await queue.ack(job)
        events = await take(queue, 5)
        assert names(events) == ["enqueued", "claimed", "extended", "progressed", "completed"]
        assert {_id(event) for event in events} == {"job"}

    async def test_events_that_are_not_followed_end_with_the_newest(self, queue: Queue) -> None:
        assert [event async for event in queue.events("beginning", follow=False)] == []
        await completed(queue)
        told = [event async for event in queue.events("beginning", follow=False)]
        assert names(told) == ["enqueued", "claimed", "completed"]
        since = told[0].position
        again = [event async for event in queue.events(since, follow=False)]
        rest = [event for event in again if not is_told_again(queue, event, since)]
        assert rest == told[1:]
        assert all(event in told for event in again)
        assert [event async for event in queue.events("now", follow=False)] == []

    async def test_every_kind_of_event_is_told(self, queue: Queue, clock: FakeClock) -> None:
        await queue.enqueue("work", id="job", retry=AT_ONCE)
        await queue.release(await claim_one(queue))
        await queue.snooze(await claim_one(queue), clock.now())
        await queue.nack(await claim_one(queue), "boom")
        await claim_one(queue)
        await clock.advance(32)
        await queue.nack(await claim_one(queue), "bang", retry=False)
        await queue.archive("job")
        await queue.unarchive("job")
        await queue.replay("job")
        await queue.cancel("job")
        await queue.pause("images")
        await queue.resume("images")
        told = names(await all_events(queue))
        assert [name for name in told if name != "claimed"] == [
            "enqueued", "released", "snoozed", "retried", "expired", "failed", "archived",
            "unarchived", "replayed", "cancelled", "paused", "resumed",
        ]  # fmt: skip

    async def test_positions_increase(self, queue: Queue) -> None:
        await queue.enqueue_many([NewJob("work") for _ in range(5)])
        for job in await queue.claim(5):
            await queue.ack(job)
        positions = [event.position for event in await take(queue, 15)]
        assert all(earlier < later for earlier, later in pairwise(positions))

    async def test_times_do_not_go_back(self, queue: Queue, clock: FakeClock) -> None:
        began = clock.now()
        await queue.enqueue("work")
        await clock.advance(5)
        await queue.enqueue("work")
        assert [event.at for event in await take(queue, 2)] == [began, began + 5]

    async def test_reading_goes_on_after_any_position(self, queue: Queue) -> None:
        await queue.enqueue_many([NewJob("work", id=str(n)) for n in range(6)])
        await queue.enqueue("work", id="6")
        events = await take(queue, 7)
        for n, event in enumerate(events[:-1]):
            rest = await take(queue, 6 - n, since=event.position)
            assert [_id(one) for one in rest] == [str(one) for one in range(n + 1, 7)]

    async def test_reading_from_now_on_leaves_out_what_was(self, queue: Queue) -> None:
        await queue.enqueue("work", id="before")
        async with meanwhile(take(queue, 1, since="now")) as news:
            await _reading(queue, news)
            await queue.enqueue("work", id="after")
        assert _id(news.result()[0]) == "after"

    async def test_events_come_live_after_those_that_were(self, queue: Queue) -> None:
        await queue.enqueue("work", id="before")
        async with meanwhile(take(queue, 3, since="beginning")) as events:
            await queue.enqueue("work", id="meanwhile")
            await queue.enqueue("work", id="after")
        assert [_id(event) for event in events.result()] == ["before", "meanwhile", "after"]

    async def test_events_of_other_handles_come_live(self, queue: Queue, handles: Handles) -> None:
        other = await handles.open()
        async with meanwhile(take(queue, 3, since="beginning")) as events:
            await other.enqueue("work", id="1")
            await queue.enqueue("work", id="2")
            await other.enqueue("work", id="3")
        told = [_id(event) for event in events.result()]
        assert sorted(told) == ["1", "2", "3"]
        if queue.capabilities.events == "ordered":
            assert told == ["1", "2", "3"]

    async def test_every_handle_reads_the_same(self, queue: Queue, handles: Handles) -> None:
        await completed(queue)
        other = await handles.open()
        await completed(other)
        mine, theirs = await take(queue, 6), await take(other, 6)
        assert [(e.position, e.event) for e in mine] == [(e.position, e.event) for e in theirs]

    async def test_several_can_follow_at_the_same_time(self, queue: Queue) -> None:
        async with (
            meanwhile(take(queue, 2, since="beginning")) as first,
            meanwhile(take(queue, 2, since="beginning")) as second,
        ):
            await queue.enqueue("work", id="a")
            await queue.enqueue("work", id="b")
        assert [_id(e) for e in first.result()] == [_id(e) for e in second.result()] == ["a", "b"]

    async def test_a_reader_that_vacuum_overtakes_is_told_and_misses_nothing_silently(
        self, queue: Queue, handles: Handles, clock: FakeClock
    ) -> None:
        """Every event, or `Gap`; also where it has read the first ones and follows."""
        other = await handles.open()
        await other.configure(log_retention_seconds=HOUR_SECONDS)
        await other.enqueue("work", id="0")
        async with asyncio.timeout(HANG_SECONDS), aclosing(queue.events("beginning")) as stream:  # type: ignore[type-var]
            told = set[str]()
            while "0" not in told:
                told.add(_id(await anext(stream)))
            for n in range(1, OVERTAKEN):
                await other.enqueue("work", id=str(n))
            await clock.advance(HOUR_SECONDS + 1)
            await other.enqueue("work", id="last")
            await other.vacuum()
            try:
                while "last" not in told:
                    told.add(_id(await anext(stream)))
            except Gap:
                return
        assert told >= {"last", *map(str, range(OVERTAKEN))}

    @pytest.mark.parametrize("since", ["yesterday", "", None, 1.5])
    async def test_an_unknown_beginning_is_refused(self, queue: Queue, since: Any) -> None:
        with pytest.raises(InvalidInput, match="beginning"):
            await take(queue, 1, since=since)

    async def test_an_event_says_where_it_belongs(self, queue: Queue, clock: FakeClock) -> None:
        await queue.enqueue("resize", {"n": 1}, id="job", queue="images")
        [event] = await take(queue, 1)
        assert (event.event, event.tenant, event.at) == ("enqueued", "default", clock.now())
        assert (event.queue, event.type, event.id) == ("images", "resize", "job")  # type: ignore[union-attr]


async def _reading(queue: Queue, news: Any) -> None:
    """Returns when whoever reads from now on has begun: its own look at the tail came first."""
    for _ in range(3):
        await queue.stats()
    assert not news.done()


def _id(event: Event) -> str:
    id = getattr(event, "id", None)
    assert isinstance(id, str)
    return id
