"""The archive of layout `single`: what was altered or cut short is not taken for what happened."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import penstock
from penstock.engines.ledger.names import ARCHIVE
from penstock.engines.ledger.single.archive import Archive
from penstock.errors import Corrupt
from penstock.ports.store import Overwrite
from penstock.stores.memory import MemoryStore
from tests.engines.stores import keys


@pytest.fixture
async def store() -> MemoryStore:
    """An archive of one object with two jobs."""
    made = MemoryStore()
    async with penstock.open(store=made, layout="single", result_ttl_seconds=0) as queue:
        new = [penstock.NewJob("work", {"n": [n, "\n"]}, id=f"j{n}") for n in range(2)]
        await queue.enqueue_many(new)
    # Another handle has read the payloads from the indented object.
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
