"""`queue.json`: small, readable, and nothing that happened is missing from it."""

from __future__ import annotations

import json

import pytest

import penstock
from penstock import NewJob, Queue
from penstock.engines.ledger.names import QUEUE
from penstock.engines.ledger.single.document import decode_document, encode_document, record_of
from penstock.kernel.events import Event
from penstock.stores.memory import MemoryStore

JOBS = 1_000
BYTES_MAX = 400_000


async def _ordinary_jobs(queue: Queue) -> None:
    payloads = ({"to": "user@example.com", "n": 12_345 + n} for n in range(JOBS))
    await queue.enqueue_many([NewJob("send", payload) for payload in payloads])


async def _stored(store: MemoryStore) -> bytes:
    return (await store.get(QUEUE)).data


async def test_a_thousand_pending_jobs_take_400_kilobytes_at_most() -> None:
    store = MemoryStore()
    async with penstock.open(store=store, layout="single") as queue:
        await _ordinary_jobs(queue)
    assert len(await _stored(store)) <= BYTES_MAX


async def test_a_thousand_completed_jobs_take_400_kilobytes_at_most() -> None:
    store = MemoryStore()
    async with penstock.open(store=store, layout="single") as queue:
        await _ordinary_jobs(queue)
        while jobs := await queue.claim(4, worker="worker.example.com-12345"):
            for job in jobs:
                await queue.ack(job, {"ok": True})
    data = await _stored(store)
    assert len(data) <= BYTES_MAX
    document = decode_document(data)
    assert {record.job.state for record in document.jobs} == {"completed"}
    assert sum(len(record.events) for record in document.jobs) == 3 * JOBS


async def test_each_job_is_a_line_that_begins_with_its_state() -> None:
    store = MemoryStore()
    async with penstock.open(store=store, layout="single") as queue:
        await queue.enqueue("work", {"a": [1, {"b": "\n"}]}, id="first")
        await queue.enqueue("work", id="second")
        await queue.ack(await queue.claim(1))
    data = await _stored(store)
    listed = [json.loads(line.rstrip(b",")) for line in data.splitlines() if b"enqueued" in line]
    assert listed == json.loads(data)["jobs"]
    assert [next(iter(line)) for line in listed] == ["completed", "pending"]


@pytest.fixture
async def eventful() -> MemoryStore:
    """Jobs whose events do not tell everything, and events that no job tells."""
    store = MemoryStore()
    async with penstock.open(store=store, layout="single", results_bytes_max=400) as queue:
        await queue.enqueue("work", id="again", queue="other", priority=3, meta={"a": 1})
        await queue.cancel("again")
        await queue.enqueue("work", id="again")
        await queue.pause("other")
        await queue.enqueue_many([NewJob("work", n, id=f"j{n}") for n in range(4)])
        for job in await queue.claim(5, lease_seconds=7, worker="w"):
            if job.id == "j3":
                await queue.nack(job, "boom")
            else:
                await queue.ack(job, "x" * 300)
        await queue.enqueue("work", id="claimed")
        await queue.claim(1)
    return store


async def test_what_is_read_is_what_was_written(eventful: MemoryStore) -> None:
    data = await _stored(eventful)
    document = decode_document(data)
    assert encode_document(document) == data
    for record in document.jobs:
        assert record_of(record.job, record.events) == record
    let_go = [each for each in document.jobs if each.job.state == "completed"]
    assert not all(each.job.result for each in let_go)
    assert len(document.events) > len(json.loads(data)["events"]) > 0


async def test_another_handle_sees_every_event_as_it_was(eventful: MemoryStore) -> None:
    async def seen(queue: Queue) -> list[Event]:
        return [event async for event in queue.events("beginning", follow=False)]

    async with penstock.open(store=eventful, layout="single") as queue:
        await queue.enqueue("work", {"n": [1.0, 10**30]}, id="last")
        async with penstock.open(store=eventful, layout="single") as other:
            assert await seen(other) == await seen(queue)
            assert await other.history("j3") == await queue.history("j3")
            for id in ("again", "j0", "j3", "last"):
                assert await other.get(id) == await queue.get(id)
