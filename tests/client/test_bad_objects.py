"""A store whose objects are damaged, foreign or newer: said at once, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import penstock
from penstock.engines.ledger.names import checkpoint_key, log_key
from penstock.errors import Corrupt, FormatError, NewerFormat
from penstock.ports.store import Create, Overwrite
from penstock.runtime.services import Services
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock
from penstock.wire.level import signed
from tests.engines.stores import checkpointed

Damage = Callable[[bytes], bytes]

DAMAGES: dict[str, Damage] = {
    "truncated": lambda data: data[: len(data) // 2],
    "emptied": lambda data: b"",
    "garbled": lambda data: b"\x00\x01\x02" * 50,
    "replaced by an error page": lambda data: b"<html><body>503</body></html>",
    "flipped in the middle": lambda data: _flipped(data, len(data) // 2),
    "flipped at the end": lambda data: _flipped(data, len(data) - 3),
    "flipped at the start": lambda data: _flipped(data, 5),
}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(autojump=True)


@pytest.fixture
def store(clock: FakeClock) -> MemoryStore:
    return MemoryStore(now=clock.now)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("which", [1, 2, 3])
async def test_a_damaged_log_object_is_named_at_open(
    store: MemoryStore, clock: FakeClock, damage: Damage, which: int
) -> None:
    await _three_jobs(store, clock, "log")
    await _change(store, log_key(which), damage)
    await _is_refused(store, clock, Corrupt, match=str(which))


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_a_damaged_queue_object_is_named_at_open(
    store: MemoryStore, clock: FakeClock, damage: Damage
) -> None:
    await _three_jobs(store, clock, "single")
    await _change(store, "queue.json", damage)
    await _is_refused(store, clock, Corrupt, match=r"queue\.json")


@pytest.mark.parametrize("layout", ["log", "single"])
@pytest.mark.parametrize("damage", ["truncated", "emptied", "replaced by an error page"])
async def test_a_damaged_marker_is_named_at_open(
    store: MemoryStore, clock: FakeClock, damage: str, layout: str
) -> None:
    await _three_jobs(store, clock, layout)
    await _change(store, "penstock.json", DAMAGES[damage])
    await _is_refused(store, clock, Corrupt, match=r"penstock\.json")


async def test_a_layout_that_nobody_knows_is_named(store: MemoryStore, clock: FakeClock) -> None:
    await store.put("penstock.json", b'{"format":1,"layout":"tree","nonce":""}', Create())
    await _is_refused(store, clock, Corrupt, match="tree")


async def test_a_newer_queue_is_told_to_upgrade_for(store: MemoryStore, clock: FakeClock) -> None:
    await _three_jobs(store, clock, "log")
    await _change(store, "penstock.json", lambda data: data.replace(b'"format":2', b'"format":9'))
    await _is_refused(store, clock, NewerFormat, match="upgrade")


async def test_a_newer_commit_is_told_to_upgrade_for(store: MemoryStore, clock: FakeClock) -> None:
    await _three_jobs(store, clock, "log")
    await _change(store, log_key(3), _newer)
    await _is_refused(store, clock, NewerFormat, match="upgrade")


async def test_a_handle_that_meets_a_newer_commit_stops_writing(
    store: MemoryStore, clock: FakeClock
) -> None:
    async with penstock.open(store=store, services=Services(clock=clock)) as queue:
        await queue.enqueue("work")
        newer = _newer((await store.get(log_key(1))).data.replace(b'"commit":1,', b'"commit":2,'))
        await store.put(log_key(2), newer, Create())
        before = await _contents(store)
        with pytest.raises(NewerFormat):
            await queue.enqueue("work")
        with pytest.raises(NewerFormat):
            await queue.stats()
        assert await _contents(store) == before


async def test_a_commit_of_another_log_is_not_taken_for_ours(
    store: MemoryStore, clock: FakeClock
) -> None:
    other = MemoryStore(now=clock.now)
    await _three_jobs(store, clock, "log")
    await _three_jobs(other, clock, "log")
    foreign = (await other.get(log_key(3))).data
    await store.put(log_key(3), foreign, Overwrite())
    await _is_refused(store, clock, Corrupt, match="continue")


async def test_a_commit_in_the_wrong_place_is_not_taken(
    store: MemoryStore, clock: FakeClock
) -> None:
    await _three_jobs(store, clock, "log")
    await store.put(log_key(3), (await store.get(log_key(2))).data, Overwrite())
    await _is_refused(store, clock, Corrupt, match="commit 2|continue")


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_a_damaged_newest_checkpoint_is_skipped(
    store: MemoryStore, clock: FakeClock, damage: Damage, caplog: pytest.LogCaptureFixture
) -> None:
    await _three_jobs(store, clock, "log")
    await checkpointed(store, 2)
    newest = await checkpointed(store, 3)
    await _change(store, checkpoint_key(newest), damage)
    async with penstock.open(store=store, services=Services(clock=clock)) as queue:
        assert (await queue.stats()).jobs == 3
    assert "skipped a checkpoint" in caplog.text


async def test_a_checkpoint_under_the_wrong_name_is_skipped(
    store: MemoryStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    await _three_jobs(store, clock, "log")
    await checkpointed(store, 1)
    misplaced = (await store.get(checkpoint_key(1))).data
    await store.put(checkpoint_key(3), misplaced, Create())
    async with penstock.open(store=store, services=Services(clock=clock)) as queue:
        assert (await queue.stats()).jobs == 3
    assert "commit 1" in caplog.text


async def test_a_log_whose_only_checkpoint_is_bad_and_whose_beginning_is_gone_says_so(
    store: MemoryStore, clock: FakeClock
) -> None:
    await _three_jobs(store, clock, "log")
    await checkpointed(store, 2)
    await store.put("floor", signed(b'{"floor":3,"nonce":"x"}'), Create())
    await _change(store, checkpoint_key(2), DAMAGES["truncated"])
    await store.delete(log_key(1))
    await store.delete(log_key(2))
    await _is_refused(store, clock, Corrupt, match="no good checkpoint")


async def test_a_queue_object_that_vanishes_is_not_taken_for_an_empty_queue(
    store: MemoryStore, clock: FakeClock
) -> None:
    async with penstock.open(store=store, layout="single", services=Services(clock=clock)) as queue:
        await queue.enqueue("work")
        await store.delete("queue.json")
        with pytest.raises(Corrupt, match="gone"):
            await queue.stats()


async def test_an_unknown_codec_is_told_to_be_brought(store: MemoryStore, clock: FakeClock) -> None:
    class Reversed:
        name = "reversed"

        def encode(self, value: Any) -> bytes:
            return str(value).encode()[::-1]

        def decode(self, data: bytes) -> Any:
            return data[::-1].decode()

    services = Services(clock=clock)
    async with penstock.open(store=store, services=services, codecs=[Reversed()]) as queue:
        await queue.enqueue("work", "abc", id="job", codec="reversed")
    async with penstock.open(store=store, services=services) as queue:
        job = await queue.get("job")
        assert job is not None
        assert "open the queue with it" in job.payload.reason


async def test_a_large_payload_whose_object_is_gone_fails_its_own_job_only(
    store: MemoryStore, clock: FakeClock
) -> None:
    services = Services(clock=clock)
    async with penstock.open(store=store, services=services, offload=True) as queue:
        await queue.enqueue("work", "x" * 300_000, id="gone")
        await queue.enqueue("work", "here")
        async for entry in store.list("data/"):
            await store.delete(entry.key)
        assert [job.payload for job in await queue.claim(2)] == ["here"]
        job = await queue.get("gone")
        assert job is not None
        assert (job.errors[0].kind, job.payload.size_bytes) == ("undecodable", 300_002)


async def _three_jobs(store: MemoryStore, clock: FakeClock, layout: str) -> None:
    async with penstock.open(store=store, layout=layout, services=Services(clock=clock)) as queue:
        for n in range(3):
            await queue.enqueue("work", {"n": n})


async def _change(store: MemoryStore, key: str, damage: Damage) -> None:
    await store.put(key, damage((await store.get(key)).data), Overwrite())


async def _is_refused(
    store: MemoryStore, clock: FakeClock, error: type[FormatError], match: str
) -> None:
    before = await _contents(store)
    with pytest.raises(error, match=match):
        async with penstock.open(store=store, services=Services(clock=clock)):
            pass
    assert await _contents(store) == before, "it wrote something"


async def _contents(store: MemoryStore) -> dict[str, bytes]:
    return {entry.key: (await store.get(entry.key)).data async for entry in store.list("")}


def _flipped(data: bytes, index: int) -> bytes:
    return data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]


def _newer(data: bytes) -> bytes:
    line, _, body = data.partition(b"\n")
    fields = msgspec.json.decode(line)
    del fields["digest"]
    return signed(msgspec.json.encode({**fields, "format": 9})) + b"\n" + body
