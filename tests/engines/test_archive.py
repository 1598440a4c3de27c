"""The archive of layout `single`: what was altered or cut short is not taken for what happened."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import penstock
from penstock.engines.ledger.names import ARCHIVE, ASIDE, QUEUE
from penstock.engines.ledger.single import journal
from penstock.engines.ledger.single.archive import Archive
from penstock.errors import Corrupt
from penstock.kernel.events import Event, Paused
from penstock.ports.store import Overwrite
from penstock.runtime.services import Services
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock
from tests.engines.stores import keys


@pytest.fixture
async def store() -> MemoryStore:
    """An archive of one object with two jobs."""
    made = MemoryStore()
    async with penstock.open(store=made, layout="single", result_ttl_seconds=0) as queue:
        new = [penstock.NewJob("work", {"n": [n, "\n"]}, id=f"j{n}") for n in range(2)]
        await queue.enqueue_many(new)
    async with penstock.open(store=made, layout="single") as queue:
        await queue.ack(await queue.claim(2))
        await queue.enqueue("work")
    return made


async def test_jobs_that_left_are_read_back(store: MemoryStore) -> None:
    records = await Archive(store).read()
    assert [(record.id, record.events[-1].event) for record in records] == [
        ("j0", "completed"),
        ("j1", "completed"),
    ]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: data.replace(b'"j1"', b'"j9"'), "altered"),
        (lambda data: data.replace(b'"digest"', b'"digits"'), "altered"),
        (lambda data: data.splitlines(keepends=True)[0], "of its 2 records 1 are there"),
        (lambda data: data[:-50], "can't be read"),
    ],
    ids=["altered", "no digest", "a line missing", "cut short"],
)
async def test_a_damaged_object_is_refused(
    store: MemoryStore, damage: Callable[[bytes], bytes], words: str
) -> None:
    [key] = await keys(store, ARCHIVE)
    await store.put(key, damage((await store.get(key)).data), Overwrite())
    with pytest.raises(Corrupt, match=words):
        await Archive(store).read()


async def test_lines_from_before_there_was_a_digest_can_be_read(store: MemoryStore) -> None:
    [key] = await keys(store, ARCHIVE)
    lines = [json.loads(line) for line in (await store.get(key)).data.splitlines()]
    for line in lines:
        del line["digest"], line["records"]
    old = "".join(json.dumps(line) + "\n" for line in lines)
    await store.put(key, old.encode(), Overwrite())
    assert [record.id for record in await Archive(store).read()] == ["j0", "j1"]


async def test_every_event_can_be_found_however_long_ago(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal, "WINDOW_EVENTS_MAX", 5)
    monkeypatch.setattr(journal, "ASIDE_EVENTS_MAX", 3)
    made = MemoryStore()
    told: list[Event] = []
    async with penstock.open(store=made, layout="single", result_ttl_seconds=0) as queue:
        for number in range(20):
            await queue.pause(f"q{number}")
            await queue.enqueue_many([penstock.NewJob("work") for _ in range(number % 8)])
            await queue.ack(await queue.claim(4))
            told += [e async for e in queue.events(told[-1].position if told else 0, follow=False)]
        assert [event async for event in queue.events("beginning", follow=False)] == told
    async with penstock.open(store=made, layout="single") as queue:
        found = [event async for event in queue.events("beginning", follow=False)]
    assert [(e.position, e.event) for e in found] == [(e.position, e.event) for e in told]
    assert [e.queue for e in found if isinstance(e, Paused)] == [f"q{n}" for n in range(20)]
    assert len(await keys(made, ASIDE)) >= 4


async def test_a_silent_reader_is_dropped() -> None:
    clock = FakeClock()
    made = MemoryStore(now=clock.now)
    services = Services(clock=clock)
    async with penstock.open(store=made, layout="single", services=services) as queue:
        await queue.move_consumer("dead", 1)
        assert "dead" in (await made.get(QUEUE)).data.decode()
        await clock.advance(31 * 86_400.0)
        await queue.vacuum()
    assert json.loads((await made.get(QUEUE)).data)["events"][-1]["event"] == "consumer_dropped"
