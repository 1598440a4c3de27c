"""Finished jobs: how long they stay, and that time alone removes them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.client.queue import Queue
from penstock.errors import InvalidInput, JobNotFound
from penstock.kernel.job import State
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.handles import Handles
from penstock.testing.conformance.backend.steps import (
    claim_one,
    claimed,
    completed,
    failed,
    found,
    ids,
    meanwhile,
    story,
)

HOUR_SECONDS = 3600.0
MONTH_SECONDS = 30 * 24 * HOUR_SECONDS


class Retention:
    async def test_a_completed_job_stays_for_an_hour(self, queue: Queue, clock: FakeClock) -> None:
        id = await completed(queue, "done")
        await clock.advance(HOUR_SECONDS - 1)
        assert (await found(queue, id)).result == "done"
        await clock.advance(1)
        assert await queue.get(id) is None

    async def test_a_lapsed_job_is_gone_for_every_reader_before_any_commit(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        id = await completed(queue)
        commit = (await queue.stats()).commit
        await clock.advance(HOUR_SECONDS)
        assert await queue.get(id) is None
        assert await ids(queue) == []
        assert await queue.cancel(id) == "not_found"
        with pytest.raises(JobNotFound):
            await queue.archive(id)
        assert (await queue.stats()).commit == commit, "reading wrote something"

    async def test_time_to_live_zero_drops_a_completed_job_at_once(self, queue: Queue) -> None:
        await queue.configure(result_ttl_seconds=0)
        id = await completed(queue, "done")
        assert await queue.get(id) is None
        assert await ids(queue) == []
        assert (await queue.enqueue("work", id=id)).status == "queued"

    async def test_a_call_gets_its_result_even_when_nothing_is_kept(self, queue: Queue) -> None:
        await queue.configure(result_ttl_seconds=0)
        async with meanwhile(queue.call("work")) as call:
            await queue.ack(await claim_one(queue, wait_seconds=20), "done")
        assert call.result() == "done"

    async def test_only_so_many_completed_jobs_are_kept_and_the_oldest_go_first(
        self, queue: Queue
    ) -> None:
        await queue.configure(finished_jobs_max=2)
        done = [await completed(queue, n) for n in range(4)]
        # Layout `single` lets a job go with the commit after its end.
        await queue.enqueue("work", id="one more")
        if queue.capabilities.limits == "eventual":
            await queue.vacuum()
        assert [job and job.result for job in await queue.get(done)] == [None, None, 2, 3]

    @pytest.mark.parametrize("end", ["failed", "cancelled"])
    async def test_dead_letters_stay_for_a_month(
        self, queue: Queue, clock: FakeClock, end: str
    ) -> None:
        if end == "failed":
            id = await failed(queue)
        else:
            id = (await queue.enqueue("work")).id
            await queue.cancel(id)
        await clock.advance(MONTH_SECONDS - 1)
        assert (await found(queue, id)).state == end
        await clock.advance(1)
        assert await queue.get(id) is None

    async def test_the_time_that_dead_letters_stay_can_be_set(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await queue.configure(dead_letter_ttl_seconds=60)
        id = await failed(queue)
        await clock.advance(60)
        assert await queue.get(id) is None

    async def test_an_archived_job_leaves_when_its_own_time_is_up(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await queue.configure(archive_ttl_seconds=60)
        id = await failed(queue)
        await clock.advance(1000)
        await queue.archive(id)
        await clock.advance(59)
        assert await ids(queue, archived=True) == [id]
        await clock.advance(1)
        assert await ids(queue, archived=True) == []

    async def test_the_history_of_a_job_that_has_left_can_still_be_read(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        if not queue.capabilities.history:
            pytest.skip("this backend keeps no history")
        id = await completed(queue)
        await clock.advance(HOUR_SECONDS)
        await queue.enqueue("work", id="something that commits")
        await queue.enqueue("work", id="and once more")
        assert await queue.get(id) is None
        assert await story(queue, id) == ["enqueued", "claimed", "completed"]

    async def test_a_result_that_was_let_go_from_memory_is_read_back(self, queue: Queue) -> None:
        await queue.configure(results_bytes_max=500)
        first = await completed(queue, "x" * 400)
        second = await completed(queue, "y" * 400)
        assert (await found(queue, first)).result == "x" * 400
        again = await queue.enqueue("work", id=first)
        assert (again.status, again.result) == ("completed", "x" * 400)
        assert (await found(queue, second)).result == "y" * 400

    async def test_a_job_that_has_not_ended_never_leaves(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        receipt = await queue.enqueue("work")
        await clock.advance(10 * MONTH_SECONDS)
        assert (await found(queue, receipt.id)).state is State.PENDING

    async def test_settings_are_everybodys(self, queue: Queue, handles: Handles) -> None:
        other = await handles.open("another tenant")
        settings = await queue.configure(result_ttl_seconds=7, finished_jobs_max=9)
        assert (settings.result_ttl_seconds, settings.finished_jobs_max) == (7, 9)
        await other.stats()
        assert other.settings == settings == queue.settings

    async def test_settings_can_be_given_when_the_queue_is_opened(self, handles: Handles) -> None:
        queue = await handles.open(result_ttl_seconds=0)
        assert queue.settings.result_ttl_seconds == 0
        job = await claimed(queue)
        await queue.ack(job)
        assert await queue.get(job.id) is None

    async def test_impossible_settings_are_refused_and_change_nothing(self, queue: Queue) -> None:
        before = queue.settings
        impossible: list[dict[str, Any]] = [
            {"result_ttl_seconds": -1.0},
            {"log_retention_seconds": 60.0},
            {"no_such_setting": 1},
        ]
        for changes in impossible:
            with pytest.raises(InvalidInput):
                await queue.configure(**changes)
        await queue.stats()
        assert queue.settings == before
