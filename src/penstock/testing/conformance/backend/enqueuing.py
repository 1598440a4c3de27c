"""Putting jobs in: what is remembered, and when it is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID  # noqa: TID251 - only to read one

from penstock.client.newjob import NewJob
from penstock.client.queue import Queue
from penstock.errors import PenstockError
from penstock.kernel.job import State
from penstock.kernel.retry import RetryPolicy
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.steps import claim_one, found, ids


class Enqueuing:
    async def test_a_new_job_is_pending_and_due_at_once(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        receipt = await queue.enqueue("resize", {"id": 7})
        job = await found(queue, receipt.id)
        assert job.state is State.PENDING
        assert (job.type, job.payload) == ("resize", {"id": 7})
        assert job.enqueued_at == job.run_at == clock.now()
        assert (job.started_at, job.ended_at, job.archived_at) == (None, None, None)

    async def test_a_new_job_has_the_defaults_of_the_contract(self, queue: Queue) -> None:
        job = await found(queue, (await queue.enqueue("resize")).id)
        assert (job.tenant, job.queue, job.priority) == ("default", "default", 0)
        assert (job.attempt, job.failures, job.max_attempts) == (0, 0, 4)
        assert job.timeout_seconds == 300
        assert job.retry == RetryPolicy(1.0, 2.0, 60.0, 0.25)
        assert (job.payload, job.result, job.errors) == (None, None, ())
        assert (job.key, job.meta, job.trace) == (None, None, None)
        assert (job.progress, job.worker, job.lease, job.lease_until) == (None, None, None, None)

    async def test_everything_that_was_said_can_be_read_back(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        policy = RetryPolicy(initial_seconds=3, multiplier=1.5, max_seconds=9, jitter=0.1)
        await queue.enqueue(
            "resize",
            {"id": 7},
            queue="images",
            id="image 7",
            key="img-7",
            priority=-5,
            run_at=clock.now() + 60,
            max_attempts=9,
            retry=policy,
            timeout_seconds=12.5,
            meta={"customer": {"name": "Ärzte & Söhne"}},
            trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        )
        job = await found(queue, "image 7")
        assert (job.queue, job.key, job.priority) == ("images", "img-7", -5)
        assert (job.run_at, job.enqueued_at) == (clock.now() + 60, clock.now())
        assert (job.max_attempts, job.retry, job.timeout_seconds) == (9, policy, 12.5)
        assert job.meta == {"customer": {"name": "Ärzte & Söhne"}}
        assert job.trace == "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    async def test_what_people_do_to_their_values_does_not_happen_to_the_queues(
        self, queue: Queue
    ) -> None:
        payload, meta = {"list": [1]}, {"list": [1]}
        await queue.enqueue("work", payload, id="job", meta=meta)
        for value in (payload, meta):
            value["list"].append(2)
        job = await claim_one(queue)
        assert (job.payload, job.meta) == ({"list": [1]}, {"list": [1]})
        job.payload["list"].append(3)
        assert job.meta is not None
        job.meta["list"].append(3)
        seen = await found(queue, "job")
        assert (seen.payload, seen.meta) == ({"list": [1]}, {"list": [1]})

    async def test_the_receipt_says_that_it_is_queued(self, queue: Queue) -> None:
        receipt = await queue.enqueue("resize", id="mine")
        assert (receipt.id, receipt.status, receipt.state) == ("mine", "queued", State.PENDING)
        assert receipt.result is None

    async def test_an_id_that_nobody_chose_is_a_uuid_of_version_7(self, queue: Queue) -> None:
        assert UUID((await queue.enqueue("resize")).id).version == 7

    async def test_ids_and_names_may_be_in_any_script(self, queue: Queue) -> None:
        await queue.enqueue("größe ändern", id="画像 №7 🚰", queue="очередь")
        job = await claim_one(queue, queues=["очередь"], types=["größe ändern"])
        assert job.id == "画像 №7 🚰"
        await queue.ack(job)
        assert (await found(queue, "画像 №7 🚰")).state is State.COMPLETED

    async def test_an_unknown_id_gives_none(self, queue: Queue) -> None:
        assert await queue.get("nobody") is None

    async def test_several_ids_give_their_jobs_in_order(self, queue: Queue) -> None:
        await queue.enqueue("work", id="a")
        await queue.enqueue("work", id="b")
        jobs = await queue.get(["b", "nobody", "a", "b"])
        assert [job and job.id for job in jobs] == ["b", None, "a", "b"]

    async def test_many_are_enqueued_in_order(self, queue: Queue) -> None:
        receipts = await queue.enqueue_many([NewJob("work", id=f"{n:03}") for n in range(100)])
        assert [_id(receipt) for receipt in receipts] == [f"{n:03}" for n in range(100)]
        listed = await ids(queue)
        if queue.capabilities.listing == "by_name":
            listed.sort()
        assert listed == [f"{n:03}" for n in range(100)]

    async def test_many_take_all_the_options_that_one_does(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        jobs = [
            NewJob("resize", {"n": 1}, queue="images", priority=3, delay_seconds=5),
            NewJob("crop", b"\x00", key="k", max_attempts=1, timeout_seconds=1, trace="t"),
        ]
        receipts = await queue.enqueue_many(jobs)
        first, second = [await found(queue, _id(receipt)) for receipt in receipts]
        assert (first.queue, first.priority, first.run_at) == ("images", 3, clock.now() + 5)
        assert (second.payload, second.key, second.max_attempts) == (b"\x00", "k", 1)
        assert (second.timeout_seconds, second.trace) == (1, "t")

    async def test_a_delayed_job_is_claimed_when_its_time_has_come_and_not_before(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await queue.enqueue("work", id="later", delay_seconds=30)
        await clock.advance(29.5)
        assert await queue.claim() == []
        await clock.advance(0.5)
        assert (await claim_one(queue)).id == "later"

    async def test_a_job_can_be_scheduled_by_the_clock(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        at = datetime.fromtimestamp(clock.now(), UTC) + timedelta(hours=1)
        await queue.enqueue("work", id="by date", run_at=at)
        await queue.enqueue("work", id="by number", run_at=clock.now() + 3600)
        assert await queue.claim(2) == []
        await clock.advance(3600)
        assert [job.id for job in await queue.claim(2)] == ["by date", "by number"]

    async def test_a_time_in_the_past_means_now(self, queue: Queue, clock: FakeClock) -> None:
        await queue.enqueue("work", id="past", run_at=clock.now() - 3600)
        assert (await found(queue, "past")).run_at == clock.now()
        assert (await claim_one(queue)).id == "past"


def _id(receipt: object) -> str:
    assert not isinstance(receipt, PenstockError), receipt
    id = receipt.id  # type: ignore[attr-defined]  # a Receipt
    assert isinstance(id, str)
    return id
