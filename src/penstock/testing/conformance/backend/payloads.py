"""Values: what goes in comes out, and what is too large is said or kept elsewhere."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from penstock.client.newjob import NewJob
from penstock.client.queue import Queue
from penstock.errors import InvalidInput, PayloadTooLarge
from penstock.kernel.commands import Receipt
from penstock.kernel.job import State
from penstock.testing.conformance.backend.handles import Handles
from penstock.testing.conformance.backend.steps import (
    claim_one,
    claimed,
    completed,
    found,
    ids,
    meanwhile,
)

VALUES = {
    "nothing": None,
    "true": True,
    "zero": 0,
    "float": -1.5e-7,
    "large number": 2**63 - 1,
    "text": 'Größe "7"\n\t 日本語 🚰 \u2028',
    "empty text": "",
    "list": [1, "two", None, [3.5, []]],
    "nested": {"a": {"b": [{"c": None}]}, "": "empty key", "ä": -1},
    "empty object": {},
    "bytes": bytes(range(256)),
    "empty bytes": b"",
}
LARGE = {"data": "x" * 50_000}


class PickleCodec:
    """A codec that nobody should use, to show that anybody's works."""

    name = "pickle"

    def encode(self, value: Any) -> bytes:
        return pickle.dumps(value)

    def decode(self, data: bytes) -> Any:
        return pickle.loads(data)


class Payloads:
    @pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
    async def test_a_payload_and_a_result_come_out_as_they_went_in(
        self, queue: Queue, value: Any
    ) -> None:
        receipt = await queue.enqueue("work", value)
        job = await claim_one(queue)
        assert (type(job.payload), job.payload) == (type(value), value)
        await queue.ack(job, value)
        done = await found(queue, receipt.id)
        assert (type(done.result), done.result) == (type(value), value)
        assert done.payload == value

    async def test_anything_like_bytes_comes_out_as_bytes(self, queue: Queue) -> None:
        await queue.enqueue("work", bytearray(b"\x00\xff"))
        await queue.enqueue("work", memoryview(b"\x01\xfe"))
        assert [job.payload for job in await queue.claim(2)] == [b"\x00\xff", b"\x01\xfe"]

    async def test_message_pack_carries_bytes_within_values(self, queue: Queue) -> None:
        value = {"image": b"\x89PNG", "sizes": [1, 2]}
        job = await claimed(queue, payload=value, codec="msgpack")
        assert (job.payload, job.codec) == (value, "msgpack")
        await queue.ack(job, value, codec="msgpack")
        assert (await found(queue, job.id)).result == value

    async def test_a_codec_of_ones_own_can_be_brought(self, handles: Handles) -> None:
        queue = await handles.open(codecs=[PickleCodec()])
        job = await claimed(queue, payload={1, 2, 3}, codec="pickle")
        assert job.payload == {1, 2, 3}
        await queue.ack(job, frozenset({4}), codec="pickle")
        assert (await found(queue, job.id)).result == frozenset({4})

    async def test_a_payload_over_the_limit_is_refused_with_its_size_and_the_limit(
        self, queue: Queue
    ) -> None:
        with pytest.raises(PayloadTooLarge) as raised:
            await queue.enqueue("work", "x" * (256 * 1024))
        assert (raised.value.size_bytes, raised.value.limit_bytes) == (256 * 1024 + 2, 256 * 1024)
        assert await ids(queue) == []

    async def test_a_payload_at_the_limit_is_taken(self, queue: Queue) -> None:
        payload = "x" * (256 * 1024 - 2)
        assert (await claimed(queue, payload=payload)).payload == payload

    async def test_a_result_over_the_limit_is_refused_and_the_lease_stays(
        self, queue: Queue
    ) -> None:
        job = await claimed(queue)
        with pytest.raises(PayloadTooLarge):
            await queue.ack(job, "x" * (256 * 1024))
        await queue.ack(job, "short")
        assert (await found(queue, job.id)).result == "short"

    async def test_large_values_are_kept_beside_the_queue_when_offload_is_on(
        self, handles: Handles
    ) -> None:
        queue = await offloading(handles)
        job = await claimed(queue, payload=LARGE)
        assert job.payload == LARGE
        assert job.payload_key is not None
        await queue.ack(job, b"y" * 60_000)
        done = await found(queue, job.id)
        assert (done.payload, done.result) == (LARGE, b"y" * 60_000)

    async def test_small_values_stay_in_the_queue_when_offload_is_on(
        self, handles: Handles
    ) -> None:
        queue = await offloading(handles)
        assert (await claimed(queue, payload="small")).payload_key is None

    async def test_a_cached_large_result_is_given_to_a_duplicate(self, handles: Handles) -> None:
        queue = await offloading(handles)
        await completed(queue, LARGE, id="once")
        receipt = await queue.enqueue("work", id="once")
        assert (receipt.status, receipt.result) == ("completed", LARGE)

    async def test_a_call_returns_a_large_result(self, handles: Handles) -> None:
        queue = await offloading(handles)
        async with meanwhile(queue.call("work", LARGE)) as call:
            job = await claim_one(queue, wait_seconds=20)
            await queue.ack(job, job.payload)
        assert call.result() == LARGE

    async def test_large_values_can_be_enqueued_in_a_batch(self, handles: Handles) -> None:
        queue = await offloading(handles)
        receipts = await queue.enqueue_many([NewJob("work", LARGE), NewJob("work", "small")])
        assert all(isinstance(receipt, Receipt) for receipt in receipts)
        assert [job.payload for job in await queue.claim(2)] == [LARGE, "small"]

    async def test_a_job_that_was_refused_leaves_its_place_to_a_better_one(
        self, queue: Queue
    ) -> None:
        with pytest.raises(InvalidInput):
            await queue.enqueue("work", object(), id="mine")
        assert (await queue.enqueue("work", id="mine")).status == "queued"
        assert (await found(queue, "mine")).state is State.PENDING


async def offloading(handles: Handles) -> Queue:
    queue = await handles.open(offload=True, payload_bytes_max=1000)
    if not queue.capabilities.offload:
        pytest.skip("this backend keeps nothing beside the queue")
    return queue
