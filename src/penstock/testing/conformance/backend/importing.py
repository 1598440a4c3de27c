"""Bulk imports, where the backend can: all jobs of a run at once, and each of them once."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import pytest_asyncio

from penstock.client.newjob import NewJob
from penstock.client.queue import Queue
from penstock.errors import InvalidInput, RunAborted, RunPublished, Unsupported
from penstock.kernel.commands import ImportReceipt
from penstock.kernel.job import State
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.handles import Handles
from penstock.testing.conformance.backend.steps import (
    all_events,
    claim_one,
    found,
    ids,
    names,
    nonzero,
    story,
)


def some(count: int, type: str = "work", **options: object) -> list[NewJob]:
    return [NewJob(type, {"n": n}, **options) for n in range(count)]  # type: ignore[arg-type]


def imported(run: str, rows: Iterable[int]) -> list[str]:
    return [f"{run}.{row}" for row in rows]


class Importing:
    @pytest_asyncio.fixture
    async def importer(self, queue: Queue) -> Queue:
        if not queue.capabilities.imports:
            with pytest.raises(Unsupported):
                await queue.import_jobs("run", some(1))
            pytest.skip("this backend has no bulk imports")
        return queue

    async def test_imported_jobs_are_claimed_in_the_order_of_all_jobs(
        self, importer: Queue, clock: FakeClock
    ) -> None:
        await importer.enqueue("work", id="before")
        await clock.advance(1)
        receipt = await importer.import_jobs("run", [*some(3), *some(2, priority=-1)])
        assert receipt == ImportReceipt("run", 5, "published")
        await clock.advance(1)
        await importer.enqueue("work", id="after")
        claimed = [job.id for job in await importer.claim(9)]
        assert claimed == [*imported("run", [0, 1]), "before", *imported("run", [2, 3, 4]), "after"]

    async def test_an_imported_job_lives_like_any_other(self, importer: Queue) -> None:
        await importer.import_jobs("run", some(1, meta={"who": "me"}, max_attempts=2))
        job = await claim_one(importer)
        assert (job.payload, job.meta, job.attempt) == ({"n": 0}, {"who": "me"}, 1)
        await importer.nack(job, "boom", retry=False)
        await importer.replay(job.id)
        await importer.ack(await claim_one(importer), "done")
        assert (await found(importer, job.id)).result == "done"
        assert (await story(importer, job.id))[:2] == ["admitted", "claimed"]

    async def test_a_run_is_imported_once(self, importer: Queue) -> None:
        await importer.import_jobs("run", some(2))
        again = await importer.import_jobs("run", some(7))
        assert again == ImportReceipt("run", 2, "already published")
        assert len(await importer.claim(99)) == 2

    async def test_a_batch_of_a_query_is_imported_once(self, importer: Queue) -> None:
        first = await importer.publish_import("a", [], query="stream", batch=4)
        again = await importer.publish_import("b", [], query="stream", batch=4)
        assert (first.status, again.status) == ("published", "already published")

    async def test_unadmitted_jobs_can_be_looked_at(self, importer: Queue) -> None:
        await importer.import_jobs("run", [*some(2), *some(1, queue="mail")])
        job = await found(importer, "run.1")
        assert (job.state, job.payload, job.queue) == (State.PENDING, {"n": 1}, "default")
        assert sorted(await ids(importer)) == imported("run", range(3))
        assert await ids(importer, queue="mail", state="pending") == ["run.2"]
        assert await ids(importer, state="failed") == []
        stats = await importer.stats()
        assert (nonzero(stats.totals), stats.unadmitted) == ({"pending": 3}, 3)
        assert [(one.queue, one.pending, one.unadmitted) for one in stats.queues] == [
            ("default", 2, 2), ("mail", 1, 1),
        ]  # fmt: skip

    async def test_an_unadmitted_job_can_be_cancelled(self, importer: Queue) -> None:
        await importer.import_jobs("run", some(3))
        assert await importer.cancel("run.1") == "cancelled"
        assert await importer.cancel("run.1") == "cancelled"
        assert await importer.cancel("run.7") == "not_found"
        assert [job.id for job in await importer.claim(9)] == imported("run", [0, 2])
        assert (await importer.enqueue("work", id="run.2")).status == "duplicate"

    async def test_imported_jobs_wait_until_they_are_due(
        self, importer: Queue, clock: FakeClock
    ) -> None:
        later = clock.now() + 60
        await importer.import_jobs("run", [*some(1, run_at=later), *some(1, run_at=later - 30)])
        assert await importer.claim(9) == []
        assert (await importer.stats()).queues[0].scheduled == 2
        await clock.advance(31)
        assert [job.id for job in await importer.claim(9)] == ["run.0"]
        await clock.advance(30)
        assert [job.id for job in await importer.claim(9)] == ["run.1"]

    async def test_paused_queues_admit_nothing(self, importer: Queue) -> None:
        await importer.pause("images")
        await importer.import_jobs("run", [*some(1, queue="images"), *some(1, queue="mail")])
        assert [job.queue for job in await importer.claim(9)] == ["mail"]
        assert (await importer.stats()).unadmitted == 1
        await importer.resume("images")
        assert [job.queue for job in await importer.claim(9)] == ["images"]

    async def test_a_run_that_was_given_up_is_never_published(self, importer: Queue) -> None:
        assert await importer.abort_import("run") == 0
        assert await importer.abort_import("run") == 0
        with pytest.raises(RunAborted):
            await importer.import_jobs("run", some(1))
        await importer.import_jobs("other", some(1))
        with pytest.raises(RunPublished):
            await importer.abort_import("other")

    async def test_rows_with_identities_are_deduplicated(self, importer: Queue) -> None:
        await importer.enqueue("work", id="1")
        told: list[tuple[int, int]] = []
        receipt = await importer.import_jobs(
            "run",
            [NewJob("work", id="1"), NewJob("work", id="2"), *some(2, key="k")],
            progress=lambda reached, rows: told.append((reached, rows)),
        )
        assert receipt == ImportReceipt("run", 4, "published")
        assert told[-1] == (4, 4)
        assert len(await importer.claim(9)) == 3
        assert (await importer.import_rows("run")).status == "already published"

    async def test_other_handles_see_what_was_imported(
        self, importer: Queue, handles: Handles
    ) -> None:
        other, stranger = await handles.open(), await handles.open(tenant="other")
        await importer.import_jobs("run", some(3))
        assert [job.id for job in await other.claim(2)] == imported("run", [0, 1])
        assert [job.id for job in await importer.claim(2)] == ["run.2"]
        assert await stranger.get("run.0") is None
        assert await stranger.claim(9) == []

    async def test_an_import_is_one_event(self, importer: Queue) -> None:
        await importer.import_jobs("run", some(3))
        assert names(await all_events(importer)) == ["imported"]

    async def test_a_run_needs_a_proper_name(self, importer: Queue) -> None:
        for run in ("", "a/b", "a.b", "x" * 101, "größe"):
            with pytest.raises(InvalidInput):
                await importer.publish_import(run, [])
        with pytest.raises(InvalidInput):
            await importer.publish_import("run", [], query="stream")
