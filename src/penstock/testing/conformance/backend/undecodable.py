"""A value that can't be read, or a result that can't be kept, harms its own job only."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
import pytest
from msgspec import Raw, Struct

from penstock.client.newjob import NewJob
from penstock.client.queue import Queue
from penstock.errors import (
    InvalidInput,
    ObjectNotFound,
    ResultUndecodable,
    StoreRefused,
    StoreUnavailable,
)
from penstock.insights.listing import with_values
from penstock.insights.records import event_record, job_record, portable_job_record
from penstock.kernel.commands import Receipt
from penstock.kernel.events import Enqueued
from penstock.kernel.job import State
from penstock.kernel.plain import ERROR_CHARACTERS_MAX
from penstock.kernel.retry import RetryPolicy
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.handles import Handles
from penstock.testing.conformance.backend.payloads import LARGE, PickleCodec, offloading
from penstock.testing.conformance.backend.steps import (
    AT_ONCE,
    HANG_SECONDS,
    claim_one,
    claimed,
    found,
)
from penstock.wire.codecs import Beside, Undecodable


class Speechless(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


class Rude(PickleCodec):
    """Refuses its bytes with words that can't be stored, said, or told in full."""

    def decode(self, data: bytes) -> Any:
        errors = [ValueError("no such file: \udcff.png"), Speechless(), ValueError("x" * 1_000_000)]
        raise errors[len(data) % 3]


class Picky(PickleCodec):
    """The same name, and bytes that it refuses."""

    def decode(self, data: bytes) -> Any:
        raise KeyError("no such class")


UNLUCKY: Final = 13
MONTH_SECONDS: Final = 30 * 24 * 3_600


class Order(Struct):
    item: str
    number: int

    def __post_init__(self) -> None:
        if self.number == UNLUCKY:
            raise KeyError("unlucky")


class UndecodableValues:
    async def test_a_claim_hands_out_the_others(self, handles: Handles, queue: Queue) -> None:
        knowing = await handles.open(codecs=[PickleCodec()])
        await queue.enqueue("work", 1)
        await knowing.enqueue("work", {2}, id="odd", codec="pickle")
        await queue.enqueue("work", 3)
        assert sorted([job.payload for job in await queue.claim(3)]) == [1, 3]
        odd = await found(queue, "odd")
        assert (odd.state, odd.failures, odd.errors[0].kind) == (State.PENDING, 1, "undecodable")
        assert "no codec 'pickle' here" in odd.errors[0].message
        assert odd.run_at > odd.enqueued_at

    async def test_what_waits_behind_it_is_claimed(self, handles: Handles, queue: Queue) -> None:
        knowing = await handles.open(codecs=[PickleCodec()])
        await knowing.enqueue("work", {1}, codec="pickle", priority=-1)
        await queue.enqueue("work", 2)
        assert (await claim_one(queue)).payload == 2
        assert await queue.claim() == []

    async def test_it_is_a_dead_letter_after_all_its_attempts(
        self, handles: Handles, queue: Queue, clock: FakeClock
    ) -> None:
        knowing = await handles.open(codecs=[PickleCodec()])
        await knowing.enqueue("work", {1}, id="odd", codec="pickle", max_attempts=2)
        for _ in range(2):
            assert await queue.claim() == []
            await clock.advance(120)
        odd = await found(knowing, "odd")
        assert (odd.state, odd.failures) == (State.FAILED, 2)
        assert await knowing.replay("odd") is State.PENDING
        assert (await claim_one(knowing)).payload == {1}

    async def test_bytes_that_the_codec_refuses_are_no_different(self, handles: Handles) -> None:
        knowing = await handles.open(codecs=[PickleCodec()])
        picky = await handles.open(codecs=[Picky()])
        await knowing.enqueue("work", {1}, id="odd", codec="pickle")
        assert await picky.claim() == []
        assert "KeyError: 'no such class'" in (await found(picky, "odd")).errors[0].message

    async def test_whatever_the_codec_says_of_it_the_others_are_handed_out(
        self, handles: Handles, queue: Queue
    ) -> None:
        knowing = await handles.open(codecs=[PickleCodec()])
        rude = await handles.open(codecs=[Rude()])
        for number in range(3):
            await knowing.enqueue("work", "x" * number, id=f"odd {number}", codec="pickle")
        await queue.enqueue("work", "good")
        assert [job.payload for job in await rude.claim(9)] == ["good"]
        odd = [await found(queue, f"odd {number}") for number in range(3)]
        assert [(job.failures, job.errors[0].kind) for job in odd] == [(1, "undecodable")] * 3
        assert max(len(job.errors[0].message) for job in odd) < 2 * ERROR_CHARACTERS_MAX

    async def test_one_that_is_to_be_tried_again_at_once_is_in_nobodys_way(
        self, handles: Handles, queue: Queue
    ) -> None:
        knowing = await handles.open(codecs=[PickleCodec()])
        await knowing.enqueue(
            "work", {1}, codec="pickle", priority=-1, max_attempts=1_000, retry=AT_ONCE
        )
        await queue.enqueue("work", "good")
        async with asyncio.timeout(HANG_SECONDS):
            assert (await claim_one(queue)).payload == "good"

    async def test_it_comes_back_as_its_policy_says_but_not_within_a_second(
        self, handles: Handles, queue: Queue
    ) -> None:
        knowing = await handles.open(codecs=[PickleCodec()])
        patient = RetryPolicy(initial_seconds=30, jitter=0)
        for id, retry in (("hasty", AT_ONCE), ("patient", patient)):
            await knowing.enqueue("work", {1}, id=id, codec="pickle", retry=retry)
        assert await queue.claim(2) == []
        for id, seconds in (("hasty", 1), ("patient", 30)):
            job = await found(queue, id)
            assert job.run_at - job.errors[0].at == pytest.approx(seconds, abs=1e-5)

    async def test_it_is_shown_with_its_size_and_the_reason(
        self, handles: Handles, queue: Queue
    ) -> None:
        knowing = await handles.open(codecs=[PickleCodec()])
        job = await claimed(knowing, payload={1}, codec="pickle", id="odd")
        raw = PickleCodec().encode({1})
        (listed,) = [job async for job in queue.jobs()]
        for seen in (await found(queue, "odd"), listed):
            assert_told(seen.payload, len(raw))
            assert seen.payload.raw == raw
            # As `status` and `list --json` show it, and as `export` writes it.
            assert_told(as_printed(job_record(seen)["payload"]), len(raw))
            exported = as_printed(portable_job_record(seen)["payload"])
            assert_told(exported, len(raw))
            assert exported.raw == raw
        await knowing.ack(job, {2}, codec="pickle")
        assert_told((await found(queue, "odd")).result, len(raw))
        if queue.capabilities.history:
            history = await queue.history("odd")
            assert_told(as_printed(event_record(history[0])["payload"]), len(raw))
            assert_told(as_printed(event_record(history[-1])["result"]), len(raw))
            stored = (await knowing.history("odd"))[0]
            assert isinstance(stored, Enqueued)
            assert isinstance(stored.payload, Raw)

    async def test_handed_in_again_it_is_the_same_bytes(
        self, handles: Handles, queue: Queue
    ) -> None:
        knowing = await handles.open(codecs=[PickleCodec()])
        await knowing.enqueue("work", {1}, codec="pickle", id="odd")
        await queue.enqueue("work", (await found(queue, "odd")).payload, id="again")
        assert (await found(knowing, "again")).payload == {1}
        gone = Undecodable("pickle", None, "it is gone")
        with pytest.raises(InvalidInput, match="it is gone"):
            await queue.enqueue("work", gone)

    async def test_a_cached_result_is_told_and_a_call_raises(
        self, handles: Handles, queue: Queue
    ) -> None:
        knowing = await handles.open(codecs=[PickleCodec()])
        await knowing.ack(await claimed(knowing, id="odd"), {2}, codec="pickle")
        receipt = await queue.enqueue("work", id="odd")
        assert receipt.status == "completed"
        assert isinstance(receipt.result, Undecodable)
        with pytest.raises(ResultUndecodable, match="no codec 'pickle' here"):
            await queue.call("work", id="odd")

    async def test_a_large_payload_that_is_gone_fails_its_job_alone(
        self, handles: Handles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue = await offloading(handles)
        await queue.enqueue("work", LARGE, id="gone")
        await queue.enqueue("work", "small")
        refuse(queue, "fetch", ObjectNotFound("store", "data/gone"), monkeypatch)
        assert [job.payload for job in await queue.claim(2)] == ["small"]
        gone = await found(queue, "gone")
        assert isinstance(gone.payload, Undecodable)
        assert gone.payload.size_bytes == len(msgspec.json.encode(LARGE))
        assert (gone.failures, gone.errors[0].kind) == (1, "undecodable")
        assert "is gone" in gone.errors[0].message
        if queue.capabilities.history:
            enqueued: Any = (await queue.history("gone"))[0]
            assert enqueued.payload == gone.payload

    async def test_a_list_says_of_large_values_that_they_are_beside_it_and_fetches_them_if_asked(
        self, handles: Handles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue, size_bytes = await offloading(handles), len(msgspec.json.encode(LARGE))
        await queue.ack(await claimed(queue, payload=LARGE, id="large"), LARGE)
        await queue.enqueue("work", "small")
        fetched: list[str] = []
        fetch = queue._backend.fetch

        async def watched(key: str) -> bytes:
            fetched.append(key)
            return await fetch(key)

        monkeypatch.setattr(queue._backend, "fetch", watched)
        large, small = sorted([job async for job in queue.jobs()], key=lambda job: job.life)
        assert (large.payload, large.result) == (Beside("json", size_bytes),) * 2
        assert job_record(large)["payload"] == Beside("json", size_bytes)
        assert (small.payload, fetched) == ("small", [])
        with pytest.raises(InvalidInput, match="get the job"):
            await queue.enqueue("work", large.payload)
        fetching = [job async for job in queue.jobs(fetch=True)]
        large, small = sorted(fetching, key=lambda job: job.life)
        assert (large.payload, large.result, small.payload) == (LARGE, LARGE, "small")
        assert len(fetched) == 2

    async def test_large_values_that_are_gone_are_told_with_their_size_by_every_look(
        self, handles: Handles
    ) -> None:
        queue, size_bytes = await offloading(handles), len(msgspec.json.encode(LARGE))
        await queue.ack(await claimed(queue, payload=LARGE, id="gone"), LARGE)
        job = await found(queue, "gone")
        for key in (job.payload_key, job.result_key):
            await delete_side(queue, key)
        (listed,) = [job async for job in queue.jobs(fetch=True)]
        [whole] = await with_values(queue, [job async for job in queue.jobs()])
        for seen in (listed, whole, await found(queue, "gone")):
            for value in (seen.payload, seen.result):
                assert isinstance(value, Undecodable)
                assert (value.codec, value.size_bytes) == ("json", size_bytes)
                assert "is gone" in value.reason
            told = as_printed(job_record(seen)["payload"])
            assert (told.size_bytes, told.reason) == (size_bytes, seen.payload.reason)

    async def test_what_was_vacuumed_is_told_and_not_taken_for_nothing(
        self, queue: Queue, clock: FakeClock
    ) -> None:
        await queue.configure(
            log_retention_seconds=3_600, result_ttl_seconds=MONTH_SECONDS, results_bytes_max=0
        )
        await queue.enqueue("work", {"n": 1}, id="old")
        await queue.enqueue("work", id="empty")
        [old, empty] = await queue.claim(2)
        await queue.ack([old, empty], results=["x" * 500, None])
        kept = await queue.get(["old", "empty"])
        assert [job and (job.payload, job.result) for job in kept] == [
            ({"n": 1}, "x" * 500), (None, None),
        ]  # fmt: skip
        await forget_events(queue, clock)
        job = await found(queue, "old")
        if job.payload == {"n": 1}:
            pytest.skip("this backend keeps a job's events for as long as the job")
        for value, reason in ((job.payload, "its enqueue"), (job.result, "its completion")):
            assert isinstance(value, Undecodable)
            assert (value.codec, value.size_bytes) == ("json", None)
            assert f"{reason} was vacuumed" in value.reason
        assert as_printed(job_record(job)["payload"]) == job.payload
        receipt = await queue.enqueue("work", id="old")
        assert (receipt.status, receipt.result) == ("completed", job.result)
        with pytest.raises(ResultUndecodable, match="vacuumed"):
            await queue.call("work", id="old")

    async def test_trouble_with_the_store_is_no_answer_and_the_leases_are_given_back(
        self, handles: Handles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue = await offloading(handles)
        await queue.enqueue("work", LARGE, id="large")
        with monkeypatch.context() as patch:
            refuse(queue, "fetch", StoreUnavailable("store", "data/large", "away"), patch)
            with pytest.raises(StoreUnavailable):
                await queue.claim()
            with pytest.raises(StoreUnavailable):
                await queue.get("large")
        job = await claim_one(queue, wait_seconds=20)
        assert (job.payload, job.failures) == (LARGE, 0)

    async def test_a_result_that_the_store_refuses_harms_its_own_ack_only(
        self, handles: Handles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue = await offloading(handles)
        for n in range(3):
            await queue.enqueue("work", n)
        jobs = await queue.claim(3)
        refuse(queue, "keep", StoreRefused("store", "data/x", "EntityTooLarge"), monkeypatch)
        outcomes = await queue.ack(jobs, results=["a", LARGE, "c"])
        assert [type(outcome) for outcome in outcomes] == [type(None), StoreRefused, type(None)]
        states = [(await found(queue, job.id)).state for job in jobs]
        assert states == [State.COMPLETED, State.RUNNING, State.COMPLETED]

        [outcome] = await queue.ack([jobs[1]], LARGE)
        assert isinstance(outcome, StoreRefused)

    async def test_a_payload_that_the_store_refuses_harms_its_own_item_only(
        self, handles: Handles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue = await offloading(handles)
        with monkeypatch.context() as patch:
            refuse(queue, "keep", StoreRefused("store", "data/x", "EntityTooLarge"), patch)
            outcomes = await queue.enqueue_many(
                [NewJob("work", payload) for payload in (LARGE, "b", LARGE, "d")]
            )
            with pytest.raises(StoreRefused):
                await queue.enqueue("work", LARGE)
        kinds = [type(outcome) for outcome in outcomes]
        assert kinds == [StoreRefused, Receipt, StoreRefused, Receipt]
        assert [job.payload for job in await queue.claim(9)] == ["b", "d"]

    async def test_the_longest_ids_have_large_values_too(self, handles: Handles) -> None:
        queue = await offloading(handles)
        id = "\N{POTABLE WATER SYMBOL}" * 200
        job = await claimed(queue, payload=LARGE, id=id)
        assert job.payload == LARGE
        assert job.payload_key is not None
        assert len(job.payload_key) < 250
        await queue.ack(job, LARGE)
        assert (await found(queue, id)).result == LARGE

    async def test_a_payload_is_handed_out_as_the_type_that_was_asked_for(
        self, queue: Queue
    ) -> None:
        await queue.enqueue("order", {"item": "lamp", "number": 2}, id="good")
        await queue.enqueue("order", {"item": 7}, id="bad")
        await queue.enqueue("order", {"item": "lamp", "number": UNLUCKY}, id="unlucky")
        [job] = await queue.claim(9, payload=Order)
        assert (job.id, job.payload) == ("good", Order("lamp", 2))
        await queue.ack(job)
        bad = await found(queue, "bad")
        assert (bad.failures, bad.errors[0].kind) == (1, "undecodable")
        assert "it is no Order" in bad.errors[0].message
        assert (await found(queue, "unlucky")).errors[0].kind == "undecodable"
        with pytest.raises(InvalidInput, match="must be a type"):
            await queue.claim(payload=5)  # type: ignore[call-overload]


def assert_told(value: Any, size_bytes: int) -> None:
    assert isinstance(value, Undecodable)
    assert (value.codec, value.size_bytes) == ("pickle", size_bytes)
    assert value.reason.startswith("no codec 'pickle' here")


def as_printed(value: Any) -> Any:
    """What somebody reads back from the JSON that a command prints."""
    return msgspec.json.decode(msgspec.json.encode(value), type=Undecodable)


async def forget_events(queue: Queue, clock: FakeClock) -> None:
    """Vacuums until the first events are gone, as far as a backend lets go of them."""
    for _ in range(3):
        await queue.ack(await claimed(queue), "done")
        await clock.advance(7_201)
        await queue.vacuum()


async def delete_side(queue: Queue, key: str | None) -> None:
    """As somebody does who tidies the wrong folder."""
    assert key is not None
    backend: Any = queue._backend
    engine = getattr(backend, "_found", backend)
    side = getattr(engine, "_side", None) or engine._journal._side
    await side._store.delete(key)


def refuse(queue: Queue, verb: str, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    async def raising(*_: object) -> Any:
        raise error

    monkeypatch.setattr(queue._backend, verb, raising)
