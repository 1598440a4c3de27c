"""Bytes that were written once can be read for ever, and are written the same way again."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec
import pytest

import penstock
from penstock.engines.ledger.log.floor import FloorRecord, read_floor
from penstock.engines.ledger.marker import Marker, read_marker
from penstock.engines.ledger.single.document import decode_document, encode_document
from penstock.kernel.events import Event
from penstock.kernel.job import State
from penstock.ports.store import Create
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import EPOCH, FakeClock
from penstock.testing.factories import seeded_services
from penstock.wire.commit import CHAIN_START, decode_commit, encode_commit
from penstock.wire.level import FORMAT_LEVEL
from penstock.wire.snapshot import checkpoint_of, decode_checkpoint, restore
from tests.wire.golden_queue import GOLDEN, objects

LEVELS = sorted(path.name for path in GOLDEN.iterdir())
COMMITS = sorted(GOLDEN.glob("*/log/log/*.jsonl"))
CHECKPOINTS = sorted(GOLDEN.glob("*/log/checkpoint/*.jsonl"))
DOCUMENTS = sorted(GOLDEN.glob("*/single/queue.json"))


def _name(path: Path) -> str:
    return str(path.relative_to(GOLDEN))


def test_every_format_level_has_golden_files() -> None:
    assert [f"level-{level}" for level in range(1, FORMAT_LEVEL + 1)] == LEVELS


@pytest.mark.parametrize("path", COMMITS, ids=_name)
def test_a_commit_is_written_as_it_was(path: Path) -> None:
    data = path.read_bytes()
    commit = decode_commit(path.name, data)
    header = commit.header
    again, chain = encode_commit(
        commit.events,
        commit=header.commit,
        commit_id=header.commit_id,
        writer=header.writer,
        at=header.at,
        previous=header.previous,
        epoch=header.epoch,
        level=header.format,
    )
    assert (again, chain) == (data, commit.chain)


@pytest.mark.parametrize("level", LEVELS)
def test_the_golden_commits_form_a_chain(level: str) -> None:
    chain = CHAIN_START
    commits = [path for path in COMMITS if path.is_relative_to(GOLDEN / level)]
    for number, path in enumerate(commits, start=1):
        commit = decode_commit(path.name, path.read_bytes())
        assert (commit.header.commit, commit.header.previous) == (number, chain)
        chain = commit.chain


def test_the_golden_commits_have_every_kind_of_event() -> None:
    seen = {
        event.event
        for path in COMMITS
        if path.is_relative_to(GOLDEN / f"level-{FORMAT_LEVEL}")
        for event in decode_commit(path.name, path.read_bytes()).events
    }
    assert seen == {kind.__struct_config__.tag for kind in get_args(Event)}


def test_only_what_has_to_be_is_written_at_the_newest_level() -> None:
    """So that older code goes on with a queue that never moved, and is refused by one that did."""
    levels = {
        decode_commit(path.name, path.read_bytes()).header.format: path.name
        for path in reversed(COMMITS)
        if path.is_relative_to(GOLDEN / "level-3")
    }
    assert sorted(levels) == [2, 3]
    first = GOLDEN / "level-3/log/log" / levels[3]
    assert decode_commit(first.name, first.read_bytes()).events[0].event == "filling_begun"


@pytest.mark.parametrize("path", CHECKPOINTS, ids=_name)
def test_a_checkpoint_is_written_as_it_was(path: Path) -> None:
    data = path.read_bytes()
    head, jobs = decode_checkpoint(path.name, data)
    state = restore(head.overview, jobs, head.at)
    again = checkpoint_of(
        state, commit=head.commit, chain=head.chain, at=head.at, level=head.format
    )
    assert again == data


@pytest.mark.parametrize("path", DOCUMENTS, ids=_name)
def test_a_queue_in_one_object_is_written_as_it_was(path: Path) -> None:
    data = path.read_bytes()
    assert encode_document(decode_document(data)) == data


@pytest.mark.parametrize("layout", ["log", "single"])
@pytest.mark.parametrize("level", LEVELS)
async def test_a_marker_is_written_as_it_was(level: str, layout: str) -> None:
    store = await _store(level, layout)
    marker = await read_marker(store)
    assert isinstance(marker, Marker)
    assert marker.layout == layout
    assert msgspec.json.encode(marker) == (await store.get("penstock.json")).data


@pytest.mark.parametrize("level", LEVELS)
async def test_a_floor_can_be_read(level: str) -> None:
    store = await _store(level, "log")
    assert await read_floor(store) == 3
    assert msgspec.json.decode((await store.get("floor")).data, type=FloorRecord).floor == 3


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("layout", ["log", "single"])
async def test_a_queue_of_any_level_can_be_opened_and_goes_on(level: str, layout: str) -> None:
    clock = FakeClock(EPOCH + 100)
    store, services = await _store(level, layout), seeded_services(8, clock)
    await store.delete("floor")  # it was made up, nothing below it is gone
    async with penstock.open(store=store, services=services) as queue:
        done = await queue.get("image 7")
        assert done is not None
        assert (done.state, done.result) == (State.COMPLETED, {"ok": True})
        assert done.errors[0].message == "boom"
        assert (await queue.enqueue("resize", queue="images", key="img-7")).status == "completed"
        plain, packed = await queue.claim(9, types=["send"])
        assert (plain.payload, packed.payload) == (b"\x00\xff", {"packed": b"\x01"})


@pytest.mark.parametrize("layout", ["log", "single"])
async def test_an_import_of_level_2_goes_on_where_it_was(layout: str) -> None:
    clock = FakeClock(EPOCH + 100)
    store, services = await _store("level-2", layout), seeded_services(8, clock)
    await store.delete("floor")
    async with penstock.open(store=store, services=services) as queue:
        assert (await queue.stats()).unadmitted == 2
        first, second = await queue.claim(9, queues=["import"], types=["print"])
        assert (first.id, second.id) == ("2026-11-15.0", "2026-11-15.2")
        assert (first.payload, first.max_attempts) == (b"\x00\xff", 2)
        assert (await queue.import_rows("begun")).status == "published"
        again = await queue.publish_import("other", [], query="stream", batch=7)
        assert again.status == "already published"
        with pytest.raises(penstock.RunAborted):
            await queue.publish_import("given-up", [])


async def test_what_is_written_today_is_what_was_written_when_the_level_was_new() -> None:
    """If this fails, the format has changed: raise the level, or take the change back."""
    assert await objects() == _files(f"level-{FORMAT_LEVEL}")


def _files(folder: str) -> dict[str, bytes]:
    root = GOLDEN / folder
    paths = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


async def _store(level: str, layout: str) -> MemoryStore:
    """The golden queue, at the time when its last object was written."""
    store = MemoryStore(now=lambda: EPOCH + 100)
    for key, data in _files(f"{level}/{layout}").items():
        await store.put(key, data, Create())
    return store
