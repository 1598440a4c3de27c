"""Looking: lists, counts and histories."""

from __future__ import annotations

import pytest

from penstock.client.newjob import NewJob
from penstock.client.queue import Queue
from penstock.errors import InvalidInput
from penstock.kernel import events
from penstock.kernel.job import State
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.handles import Handles
from penstock.testing.conformance.backend.steps import (
    AT_ONCE,
    claim_one,
    claimed,
    completed,
    failed,
    found,
    ids,
    nonzero,
    story,
)


class Looking:
    async def test_jobs_are_listed_oldest_first(self, queue: Queue) -> None:
        await queue.enqueue("work", id="b", priority=5)
        await queue.enqueue_many([NewJob("work", id="a"), NewJob("work", id="c")])
        if queue.capabilities.listing == "by_name":
            assert sorted(await ids(queue)) == ["a", "b", "c"]
        else:
            assert await ids(queue) == ["b", "a", "c"]

    async def test_a_listing_can_be_narrowed(self, queue: Queue) -> None:
        await queue.enqueue("resize", id="1", queue="images")
        await queue.enqueue("crop", id="2", queue="images")
        await queue.enqueue("resize", id="3")
        await queue.cancel("3")
        assert sorted(await ids(queue, queue="images")) == ["1", "2"]
        assert sorted(await ids(queue, type="resize")) == ["1", "3"]
        assert await ids(queue, state="cancelled") == ["3"]
        assert await ids(queue, state=State.PENDING, type="resize") == ["1"]
        assert await ids(queue, queue="nowhere") == []

    async def test_an_unknown_state_is_refused(self, queue: Queue) -> None:
        with pytest.raises(InvalidInput, match="pending"):
            await ids(queue, state="sleeping")

    async def test_a_listed_job_has_its_payload(self, queue: Queue) -> None:
        await queue.enqueue("work", {"n": 1})
        [job] = [job async for job in queue.jobs()]
        assert job.payload == {"n": 1}

    async def test_a_job_that_was_handed_out_does_not_change(self, queue: Queue) -> None:
        receipt = await queue.enqueue("work")
        before = await found(queue, receipt.id)
        await queue.cancel(receipt.id)
        assert before.state is State.PENDING

    async def test_the_counts_of_an_empty_queue_are_empty(self, queue: Queue) -> None:
        stats = await queue.stats()
        assert (nonzero(stats.totals), stats.queues, stats.jobs) == ({}, [], 0)

    async def test_every_job_is_counted_in_the_state_that_it_is_in(self, queue: Queue) -> None:
        await completed(queue)
        await failed(queue)
        await queue.cancel((await queue.enqueue("work")).id)
        await claimed(queue)
        await queue.enqueue("work")
        await queue.enqueue("work", delay_seconds=60)
        stats = await queue.stats()
        assert nonzero(stats.totals) == {
            State.PENDING: 2,
            State.RUNNING: 1,
            State.COMPLETED: 1,
            State.FAILED: 1,
            State.CANCELLED: 1,
        }
        assert stats.jobs == 6
        [only] = stats.queues
        assert (only.queue, only.pending, only.scheduled, only.running) == ("default", 2, 1, 1)

    async def test_every_state_is_in_the_totals(self, queue: Queue) -> None:
        none = {state.value: 0 for state in State}
        assert (await queue.stats()).totals == none
        await queue.enqueue("work")
        stats = await queue.stats()
        assert stats.totals == stats.queues[0].totals == {**none, "pending": 1}

    async def test_the_totals_add_up_over_the_queues(self, queue: Queue) -> None:
        for name in ("a", "b", "b"):
            await queue.enqueue("work", queue=name)
        stats = await queue.stats()
        assert [(one.queue, nonzero(one.totals)) for one in stats.queues] == [
            ("a", {State.PENDING: 1}),
            ("b", {State.PENDING: 2}),
        ]
        assert nonzero(stats.totals) == {State.PENDING: 3}

    async def test_jobs_that_have_left_are_still_counted(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await queue.configure(result_ttl_seconds=10)
        for _ in range(3):
            await completed(queue)
        await clock.advance(10)
        await completed(queue)
        await queue.enqueue("work")
        stats = await queue.stats()
        assert nonzero(stats.totals) == {State.PENDING: 1, State.COMPLETED: 4}
        assert stats.jobs == 2

    async def test_a_new_life_is_another_job_in_the_counts(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await completed(queue, id="phoenix")
        await clock.advance(3600)
        await queue.enqueue("work", id="phoenix")
        totals = (await queue.stats()).totals
        assert nonzero(totals) == {State.COMPLETED: 1, State.PENDING: 1}

    async def test_the_stats_say_since_when_somebody_waits(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        began = clock.now()
        await queue.enqueue("work", priority=5)
        await clock.advance(10)
        await queue.enqueue("work", priority=0)
        await queue.enqueue("work", queue="later", delay_seconds=60)
        default, later = (await queue.stats()).queues
        assert (default.oldest_ready_at, later.oldest_ready_at) == (began, None)
        await clock.advance(60)
        _, later = (await queue.stats()).queues
        assert (later.oldest_ready_at, later.scheduled) == (began + 70, 0)

    async def test_the_stats_say_what_waits_of_each_type(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        began = clock.now()
        await queue.enqueue("resize")
        await clock.advance(10)
        await queue.enqueue("resize", priority=-1)
        await queue.enqueue("mail", delay_seconds=60)
        await queue.enqueue("resize", queue="other")
        await completed(queue, type="gone", queue="other")
        default, other = (await queue.stats()).queues
        waiting = [(one.type, one.pending, one.oldest_ready_at) for one in default.types]
        assert waiting == [("mail", 1, None), ("resize", 2, began)]
        assert [(one.type, one.pending) for one in other.types] == [("resize", 1)]

    async def test_the_history_of_what_is_unknown_is_empty(self, queue: Queue) -> None:
        assert await queue.history("nobody") == []

    async def test_the_history_has_every_transition(self, queue: Queue, clock: FakeClock) -> None:
        await queue.enqueue("work", id="job", retry=AT_ONCE, max_attempts=3)
        await queue.release(await claim_one(queue))
        await queue.snooze(await claim_one(queue), clock.now())
        await queue.nack(await claim_one(queue), "boom")
        job = await claim_one(queue)
        await queue.heartbeat(job, progress=0.5)
        await clock.advance(32)
        await queue.nack(await claim_one(queue), "bang", retry=False)
        await queue.archive("job")
        await queue.unarchive("job")
        await queue.replay("job")
        await queue.cancel("job")
        await queue.replay("job")
        await queue.ack(await claim_one(queue), "done")
        assert await story(queue, "job") == [
            "enqueued", "claimed", "released", "claimed", "snoozed", "claimed", "retried",
            "claimed", "expired", "claimed", "failed", "archived", "unarchived", "replayed",
            "cancelled", "replayed", "claimed", "completed",
        ]  # fmt: skip

    async def test_a_long_history_is_whole(self, queue: Queue) -> None:
        await queue.enqueue("work", id="job")
        for _ in range(40):
            await queue.release(await claim_one(queue))
        assert await story(queue, "job") == ["enqueued", *["claimed", "released"] * 40]

    async def test_an_event_of_the_history_says_all_about_its_attempt(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        began = clock.now()
        await queue.enqueue("work", id="job", queue="images", retry=AT_ONCE, delay_seconds=5)
        await clock.advance(10)
        job = await claim_one(queue, worker="w1")
        await clock.advance(1)
        await queue.nack(job, "boom", kind="ValueError")
        retried = (await queue.history("job"))[-1]
        assert isinstance(retried, events.Retried)
        assert (retried.tenant, retried.queue, retried.type) == ("default", "images", "work")
        assert (retried.at, retried.enqueued_at, retried.due_at) == (began + 11, began, began + 5)
        assert (retried.started_at, retried.worker) == (began + 10, "w1")
        assert (retried.attempt, retried.failures) == (1, 1)
        assert (retried.kind, retried.error, retried.run_at) == ("ValueError", "boom", began + 11)

    async def test_the_last_event_of_a_job_carries_its_summary(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        began = clock.now()
        await queue.enqueue(
            "work", id="job", retry=AT_ONCE, priority=3, key="k", meta={"a": 1}, trace="t"
        )
        await queue.nack(await claim_one(queue), "boom")
        await clock.advance(1)
        await queue.ack(await claim_one(queue, worker="w2"), {"ok": True})
        end = (await queue.history("job"))[-1]
        assert isinstance(end, events.Completed)
        assert (end.attempt, end.failures, end.worker) == (2, 1, "w2")
        assert (end.enqueued_at, end.started_at, end.at) == (began, began + 1, began + 1)
        assert (end.priority, end.key, end.meta, end.trace) == (3, "k", {"a": 1}, "t")
        assert [error.message for error in end.errors] == ["boom"]
        assert bytes(end.result) == b'{"ok":true}'

    async def test_a_handle_sees_at_once_what_another_was_told(
        self, queue: Queue, handles: Handles
    ) -> None:
        other = await handles.open()
        for n in range(3):
            await queue.enqueue("work", id=str(n))
            assert sorted(await ids(other)) == [str(one) for one in range(n + 1)]
            assert (await other.stats()).jobs == n + 1
            assert await story(other, str(n)) == ["enqueued"]

    async def test_stats_tell_how_large_the_queue_is_where_that_is_known(
        self, queue: Queue
    ) -> None:
        await queue.enqueue_many([NewJob("t", {"n": n}) for n in range(100)])
        size = (await queue.stats()).state_bytes
        assert size is None or size > 1_000
