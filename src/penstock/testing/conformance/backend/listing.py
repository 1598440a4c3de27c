"""Lists of jobs: a page at a time, each job once, none missed."""

from __future__ import annotations

import pytest

from penstock.client.newjob import NewJob
from penstock.client.queue import Queue
from penstock.errors import InvalidInput
from penstock.kernel.job import State
from penstock.ports import listing as pages
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.handles import Handles
from penstock.testing.conformance.backend.steps import ids

PAGE_JOBS = 3
NAMES = [f"job {n}" for n in range(10)]


class Listing:
    @pytest.fixture
    def small_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pages, "PAGE_JOBS", PAGE_JOBS)
        monkeypatch.setattr(pages, "LOOKED_AT_MAX", PAGE_JOBS)

    async def test_a_listing_of_many_pages_has_every_job_once(
        self, queue: Queue, small_pages: None
    ) -> None:
        await enqueue_all(queue, NAMES)
        listed = await ids(queue)
        assert sorted(listed) == NAMES
        if queue.capabilities.listing == "oldest_first":
            assert listed == NAMES

    async def test_a_listing_ends_at_its_limit_and_goes_on_behind_a_cursor(
        self, queue: Queue, small_pages: None
    ) -> None:
        await enqueue_all(queue, NAMES)
        everything = await ids(queue)
        assert await ids(queue, limit=0) == []
        assert await ids(queue, limit=99) == everything
        for limit in (1, PAGE_JOBS, 4):
            listed: list[str] = []
            after: str | None = None
            for _ in NAMES:
                page = [job async for job in queue.jobs(limit=limit, after=after)]
                listed += [job.id for job in page]
                if len(page) < limit:
                    break
                after = queue.cursor(page[-1])
            assert listed == everything

    async def test_a_narrow_listing_goes_on_past_what_it_leaves_out(
        self, handles: Handles, queue: Queue, small_pages: None
    ) -> None:
        neighbour = await handles.open("neighbour")
        for queue_, tenants_names in ((queue, NAMES), (neighbour, ["job 3", "job 8", "other"])):
            await enqueue_all(queue_, tenants_names)
        await queue.enqueue_many([NewJob("rare", id="rare", queue="far"), NewJob("work", id="z")])
        await queue.cancel(["job 1", "job 8", "rare"])
        assert await ids(queue, type="rare") == await ids(queue, queue="far") == ["rare"]
        assert sorted(await ids(queue, state="cancelled")) == ["job 1", "job 8", "rare"]
        assert len(await ids(queue, state="cancelled", limit=2)) == 2
        assert sorted(await ids(neighbour)) == ["job 3", "job 8", "other"]
        assert await ids(neighbour, state="cancelled") == []

    async def test_a_job_that_changes_between_the_pages_comes_once_and_none_is_missed(
        self, queue: Queue, small_pages: None
    ) -> None:
        await enqueue_all(queue, NAMES)
        listed: list[str] = []
        async for job in queue.jobs():
            listed.append(job.id)
            if len(listed) == PAGE_JOBS - 1:
                claimed = await queue.claim(len(NAMES) // 2)
                await queue.ack(claimed[0])
                await queue.nack(claimed[1], "no")
                await queue.cancel([job.id for job in claimed[2:]])
                await queue.replay([job.id for job in claimed[2:]])
        assert sorted(listed) == NAMES

    async def test_a_life_that_begins_between_the_pages_is_not_listed(
        self, queue: Queue, small_pages: None
    ) -> None:
        await enqueue_all(queue, NAMES)
        listed: list[str] = []
        async for job in queue.jobs():
            listed.append(job.id)
            if len(listed) == 1:
                await queue.cancel(job.id)
                assert (await queue.enqueue("work", id=job.id)).status == "queued"
                await queue.enqueue("work", id="job 99")
        if queue.capabilities.listing == "by_name":
            # One object per id is met once, whatever has become of it; a new one may be ahead.
            listed = [id for id in listed if id != "job 99"]
        assert sorted(listed) == NAMES

    async def test_a_row_that_is_admitted_between_the_pages_comes_once(
        self, queue: Queue, small_pages: None
    ) -> None:
        if not queue.capabilities.imports:
            pytest.skip("this backend has no bulk imports")
        await enqueue_all(queue, NAMES)
        await queue.import_jobs("run", [NewJob("work", priority=-1) for _ in range(8)])
        await queue.cancel("run.5")
        [sixth] = [job async for job in queue.jobs() if job.id == "run.6"]
        assert await ids(queue, after=queue.cursor(sixth)) == ["run.7"]
        listed: list[str] = []
        async for job in queue.jobs():
            listed.append(job.id)
            if len(listed) == 1:
                await queue.claim(2)
                await queue.cancel("run.7")
            if len(listed) == len(NAMES) + 2:
                await queue.claim(1)
        assert sorted(listed) == sorted([*NAMES, *(f"run.{row}" for row in range(8))])

    async def test_a_job_that_has_lapsed_is_not_listed_although_it_is_there(
        self, queue: Queue, clock: FakeClock, small_pages: None
    ) -> None:
        await queue.configure(dead_letter_ttl_seconds=60)
        await enqueue_all(queue, NAMES)
        await queue.cancel(NAMES[:7])
        await clock.advance(61)
        assert sorted(await ids(queue)) == NAMES[7:]
        assert sorted(await ids(queue, limit=2, state=State.PENDING)) != []

    async def test_bad_cursors_and_limits_are_refused(self, queue: Queue) -> None:
        for bad in ("", "job", "1/2", "x//job", "1/-2/job", f"{2**63}//job", "1//"):
            with pytest.raises(InvalidInput, match="cursor"):
                await ids(queue, after=bad)
        for limit in (-1, 1.5, "many"):
            with pytest.raises(InvalidInput, match="limit"):
                await ids(queue, limit=limit)


async def enqueue_all(queue: Queue, names: list[str]) -> None:
    await queue.enqueue_many([NewJob("work", id=name) for name in names])
