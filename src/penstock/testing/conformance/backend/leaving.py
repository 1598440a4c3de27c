"""Callers that leave: whatever a claim got that did not return is there for others at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from typing import Any, get_args

import pytest

from penstock.client.queue import Queue
from penstock.errors import InvalidInput, OutcomeUnknown, PenstockError, QueueClosed
from penstock.kernel.job import Job, State
from penstock.testing.conformance.backend.handles import Handles
from penstock.testing.conformance.backend.steps import (
    HANG_SECONDS,
    claim_one,
    found,
    meanwhile,
    story,
)
from penstock.testing.interruption import Interruption, Moment

LONG_SECONDS = 3_600.0
"""A lease that does not run out while a test lasts."""
LARGE = {"x": "y" * 2_000}
AWAITS_MAX = 50
MOMENTS: tuple[Moment, ...] = get_args(Moment)


class Leaving:
    @pytest.mark.parametrize("moment", MOMENTS)
    async def test_a_claim_that_is_cancelled_at_any_await_holds_no_lease(
        self, queue: Queue, moment: Moment
    ) -> None:
        await _enqueue(queue, 2)
        for at in range(1, AWAITS_MAX):
            claim = queue.claim(2, lease_seconds=LONG_SECONDS)
            interruption = Interruption(claim, at=at, moment=moment)
            await interruption.run()
            if not interruption.happened:
                break
            await _take_and_return(queue, 2)
        await _take_the_rest(queue, interruption, 2)

    @pytest.mark.parametrize("moment", MOMENTS)
    async def test_a_claim_that_is_cancelled_while_it_waits_holds_no_lease(
        self, queue: Queue, moment: Moment
    ) -> None:
        for at in range(1, AWAITS_MAX):
            claim = queue.claim(1, lease_seconds=LONG_SECONDS, wait_seconds=LONG_SECONDS)
            interruption = Interruption(claim, at=at, moment=moment)
            async with meanwhile(interruption.run()):
                await _enqueue(queue, 1)
            left = 0 if interruption.result else 1
            await _take_and_return(queue, left, ack=True)
            if not interruption.happened:
                break
        assert interruption.result

    @pytest.mark.parametrize("moment", MOMENTS)
    async def test_a_claim_that_is_cancelled_while_payloads_are_fetched_holds_no_lease(
        self, queue: Queue, handles: Handles, moment: Moment
    ) -> None:
        offloading = await _offloading(handles)
        for _ in range(2):
            await offloading.enqueue("large", LARGE)
        for at in range(1, AWAITS_MAX):
            claim = offloading.claim(2, lease_seconds=LONG_SECONDS)
            interruption = Interruption(claim, at=at, moment=moment)
            await interruption.run()
            if not interruption.happened:
                break
            await _take_and_return(queue, 2)
        assert all(job.payload == LARGE for job in interruption.result or [])
        await _take_the_rest(queue, interruption, 2)

    @pytest.mark.parametrize("moment", MOMENTS)
    async def test_closing_right_behind_a_cancelled_claim_gives_back_what_it_got(
        self, queue: Queue, handles: Handles, moment: Moment
    ) -> None:
        await _enqueue(queue, 1)
        for at in range(1, AWAITS_MAX):
            leaving = await handles.open()
            claim = leaving.claim(1, lease_seconds=LONG_SECONDS)
            interruption = Interruption(claim, at=at, moment=moment, behind=leaving.close)
            await interruption.run()
            if not interruption.happened:
                break
            # It was closed, so by now nothing is on its way any more.
            [job] = [job async for job in queue.jobs()]
            assert job.state is State.PENDING
        assert interruption.result

    @pytest.mark.parametrize("moment", MOMENTS)
    async def test_closing_while_a_payload_is_fetched_lets_the_claim_return(
        self, queue: Queue, handles: Handles, moment: Moment
    ) -> None:
        for at in range(1, AWAITS_MAX):
            leaving = await _offloading(handles)
            await leaving.enqueue("large", LARGE)
            closing = Interruption(
                leaving.claim(), at=at, moment=moment, cancel=False, behind=leaving.close
            )
            await closing.run()
            [job] = closing.result or []
            assert job.payload == LARGE
            await queue.ack(job)
            if not closing.happened:
                break

    @pytest.mark.parametrize("what", ["vacuum", "stats", "jobs", "events"])
    async def test_closing_under_a_call_lets_it_end_or_says_so(
        self, handles: Handles, what: str
    ) -> None:
        for at in range(1, AWAITS_MAX):
            leaving = await handles.open()
            await leaving.enqueue("work")
            closing = Interruption(_call(leaving, what), at=at, cancel=False, behind=leaving.close)
            with suppress(PenstockError):
                await closing.run()
            await leaving.close()
            if not closing.happened:
                break

    async def test_who_asks_again_after_leaving_keeps_what_it_gets(self, queue: Queue) -> None:
        await _enqueue(queue, 1)
        for moment in MOMENTS:
            claim = queue.claim(operation="mine", lease_seconds=LONG_SECONDS)
            await Interruption(claim, at=1, moment=moment).run()
            job = await claim_one(queue, operation="mine", lease_seconds=LONG_SECONDS)
            await queue.stats()
            assert (await found(queue, job.id)).lease == job.lease
            await queue.release(job)

    @pytest.mark.parametrize("moment", MOMENTS)
    async def test_who_asks_again_and_leaves_again_holds_no_lease(
        self, queue: Queue, moment: Moment
    ) -> None:
        await _enqueue(queue, 1)
        for at in range(1, AWAITS_MAX):
            operation = queue.new_id()
            claim = queue.claim(operation=operation, lease_seconds=LONG_SECONDS)
            await Interruption(claim, at=1, moment=moment).run()
            again = queue.claim(operation=operation, lease_seconds=LONG_SECONDS)
            interruption = Interruption(again, at=at)
            await interruption.run()
            if not interruption.happened:
                break
            await _take_and_return(queue, 1)
        assert interruption.result

    @pytest.mark.parametrize("leaves_first", [True, False], ids=["first", "second"])
    @pytest.mark.parametrize("moment", MOMENTS)
    async def test_of_two_that_ask_with_one_operation_who_stays_keeps_what_it_gets(
        self, queue: Queue, moment: Moment, leaves_first: bool
    ) -> None:
        await _enqueue(queue, 1)
        for at in range(1, AWAITS_MAX):
            named: Any = {"operation": queue.new_id(), "lease_seconds": LONG_SECONDS}
            leaving = Interruption(queue.claim(**named), at=at, moment=moment)
            staying = Interruption(queue.claim(**named), at=AWAITS_MAX)
            pair = (leaving, staying) if leaves_first else (staying, leaving)
            async with asyncio.timeout(HANG_SECONDS):
                await asyncio.gather(*(one.run() for one in pair))
            [job] = staying.result or []
            await _stays_held(queue, job)
            await queue.release(job)
            if not leaving.happened:
                break
        assert leaving.result

    @pytest.mark.parametrize("moment", MOMENTS)
    async def test_who_asks_for_what_another_has_got_and_leaves_takes_nothing_from_it(
        self, queue: Queue, moment: Moment
    ) -> None:
        await _enqueue(queue, 1)
        for at in range(1, AWAITS_MAX):
            operation = queue.new_id()
            job = await claim_one(queue, operation=operation, lease_seconds=LONG_SECONDS)
            again = queue.claim(operation=operation, lease_seconds=LONG_SECONDS)
            interruption = Interruption(again, at=at, moment=moment)
            await interruption.run()
            await _stays_held(queue, job)
            await queue.release(job)
            if not interruption.happened:
                break
        assert interruption.result

    @pytest.mark.parametrize("moment", MOMENTS)
    async def test_where_all_leave_that_ask_with_one_operation_no_lease_is_held(
        self, queue: Queue, moment: Moment
    ) -> None:
        await _enqueue(queue, 1)
        for at in range(1, AWAITS_MAX):
            named: Any = {"operation": queue.new_id(), "lease_seconds": LONG_SECONDS}
            leaving = [
                Interruption(queue.claim(**named), at=at, moment=moment),
                Interruption(queue.claim(**named), at=at, moment="under way"),
                Interruption(queue.claim(**named), at=at + 1, moment=moment),
            ]
            async with asyncio.timeout(HANG_SECONDS):
                await asyncio.gather(*(one.run() for one in leaving))
            got = [one.result for one in leaving if one.result]
            if len(got) == len(leaving):
                break
            for [job] in got[:1]:
                await _stays_held(queue, job)
                await queue.release(job)
            await _take_and_return(queue, 1)
        assert len(got) == len(leaving)

    async def test_a_name_that_was_used_before_is_given_back_like_any_other(
        self, queue: Queue
    ) -> None:
        await _enqueue(queue, 1)
        named: Any = {"operation": "mine", "lease_seconds": LONG_SECONDS}
        await queue.release(await claim_one(queue, **named))
        claim = queue.claim(**named)
        await Interruption(claim, at=1, moment="arrived").run()
        await _take_and_return(queue, 1)

    async def test_a_lease_that_is_given_back_counts_no_failure(self, queue: Queue) -> None:
        receipt = await queue.enqueue("work", max_attempts=1)
        claim = queue.claim(lease_seconds=LONG_SECONDS)
        await Interruption(claim, at=1, moment="arrived").run()
        job = await claim_one(queue, wait_seconds=LONG_SECONDS)
        assert (job.id, job.attempt, job.failures) == (receipt.id, 2, 0)
        assert await story(queue, job.id) == ["enqueued", "claimed", "released", "claimed"]

    async def test_an_operation_is_a_name(self, queue: Queue) -> None:
        for bad in ("", "a/b", 7, "x" * 10_000):
            with pytest.raises(InvalidInput):
                await queue.claim(operation=bad)  # type: ignore[arg-type]

    async def test_starting_at_once_is_starting_once(self, queue: Queue, handles: Handles) -> None:
        other = handles.make()
        await asyncio.gather(*(other.start() for _ in range(5)))
        await other.enqueue("work")
        await other.close()
        assert len(await queue.claim(9)) == 1

    async def test_a_queue_whose_tasks_were_taken_down_refuses_and_closes_at_once(
        self, queue: Queue, handles: Handles
    ) -> None:
        before = asyncio.all_tasks()
        other = await handles.open()
        await other.enqueue("work")
        tasks = asyncio.all_tasks() - before

        async def take_down() -> None:
            # As asyncio does where a program exits in the midst of its loop.
            for task in tasks:
                task.cancel()

        async with asyncio.timeout(HANG_SECONDS):
            with suppress(QueueClosed, OutcomeUnknown):
                await Interruption(other.claim(), at=1, cancel=False, behind=take_down).run()
            await asyncio.wait(tasks)
            with pytest.raises(QueueClosed):
                await other.enqueue("more")
            await other.close()
        assert [job.type async for job in queue.jobs()] == ["work"]


async def _enqueue(queue: Queue, count: int) -> None:
    for _ in range(count):
        await queue.enqueue("work")


async def _stays_held(queue: Queue, job: Job) -> None:
    """Whatever was on its way when it was claimed has been served by then."""
    for _ in range(3):
        await queue.heartbeat(job, lease_seconds=LONG_SECONDS)
    assert (await found(queue, job.id)).lease == job.lease


async def _take_and_return(queue: Queue, count: int, *, ack: bool = False) -> None:
    """Claims them, as soon as whoever had them has given them back, and lets go of them."""
    async with asyncio.timeout(HANG_SECONDS):
        for _ in range(count):
            job = await claim_one(queue, lease_seconds=LONG_SECONDS, wait_seconds=LONG_SECONDS)
            assert job.failures == 0
            await (queue.ack(job) if ack else queue.release(job))


async def _take_the_rest(queue: Queue, claim: Interruption[list[Job]], count: int) -> None:
    """A claim may find fewer than there are, for a moment: the others are free."""
    async with asyncio.timeout(HANG_SECONDS):
        for _ in range(count - len(claim.result or [])):
            await claim_one(queue, lease_seconds=LONG_SECONDS, wait_seconds=LONG_SECONDS)
    assert await queue.claim(9) == []


async def _offloading(handles: Handles) -> Queue:
    queue = await handles.open(offload=True, payload_bytes_max=1_000)
    if not queue.capabilities.offload:
        pytest.skip("this backend keeps no values beside the queue")
    return queue


def _call(queue: Queue, what: str) -> Coroutine[Any, Any, Any]:
    match what:
        case "vacuum":
            return queue.vacuum()
        case "stats":
            return queue.stats()
        case "jobs":
            return _drained(queue.jobs())
        case _:
            return _drained(queue.events("beginning", follow=False))


async def _drained(found: AsyncIterator[Any]) -> list[Any]:
    return [one async for one in found]
