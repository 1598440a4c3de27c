"""Bytes that were written once can be read for ever, are written the same again, and are whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.engines.records.tasks.names import CHARTER, SUMMARIES, shard_of, summary_key
from penstock.errors import Corrupt
from penstock.kernel.job import State
from penstock.ports.store import Create
from penstock.testing.clock import EPOCH
from penstock.testing.conformance.backend.steps import claim_one, found, ids, nonzero, story
from penstock.wire.seen import Seen, decode_summary, encode_summary
from penstock.wire.task import (
    decode_charter_object,
    decode_key,
    decode_task,
    encode_charter_object,
    encode_key,
    encode_task,
)
from tests.tasks_layout.worlds import World

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(path for path in GOLDEN.rglob("*") if path.is_file())
DOCUMENTS = [path for path in FILES if path.suffix == ".json" and path.name != "penstock.json"]


def _key(path: Path) -> str:
    return path.relative_to(GOLDEN).as_posix()


def _again(key: str, data: bytes) -> bytes:
    """Decoded and encoded."""
    if key == CHARTER:
        return encode_charter_object(decode_charter_object(key, data))
    if key.startswith("keys/"):
        return encode_key(decode_key(key, data))
    if key.startswith(SUMMARIES):
        return encode_summary(decode_summary(key, data))
    return encode_task(decode_task(key, data))


@pytest.mark.parametrize("path", DOCUMENTS, ids=_key)
def test_a_document_is_written_as_it_was(path: Path) -> None:
    data = path.read_bytes()
    assert _again(_key(path), data) == data


@pytest.mark.parametrize("path", DOCUMENTS, ids=_key)
def test_one_changed_bit_is_seen(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for place in range(0, len(data), 37):
        data[place] ^= 1
        with pytest.raises(Corrupt):
            _again(_key(path), bytes(data))
        data[place] ^= 1


async def test_a_queue_that_was_written_before_goes_on() -> None:
    world = World()
    for path in FILES:
        await world.store.put(_key(path), path.read_bytes(), Create())
    async with world.open() as queue:
        assert nonzero((await queue.stats()).totals) == {
            "pending": 1, "running": 1, "completed": 1, "failed": 1,
        }  # fmt: skip
        assert queue.settings.result_ttl_seconds == 7200
        assert (await found(queue, "done")).result == {"ok": True}
        assert await story(queue, "dead") == ["enqueued", "claimed", "failed"]
        assert await ids(queue, state="running") == ["running"]
        assert (await queue.enqueue("work", key="k")).id == "waiting"
        assert (await claim_one(queue)).id == "waiting"
        assert (await found(queue, "waiting")).state is State.RUNNING
    assert await world.troubles() == {}


if __name__ == "__main__":
    import asyncio

    async def write() -> None:
        """Makes the files anew. To be run when the format level was raised, and only then."""
        world = World()
        async with world.open(result_ttl_seconds=7200) as queue:
            await queue.enqueue("work", {"n": 1}, id="done")
            await queue.ack(await claim_one(queue, worker="w1"), {"ok": True})
            await queue.enqueue("work", b"\x00\xff", id="dead", max_attempts=1)
            await queue.nack(await claim_one(queue), "boom")
            await queue.enqueue("work", id="running", queue="images")
            await queue.heartbeat(await claim_one(queue), progress=0.5, lease_seconds=3600)
            await queue.enqueue("work", id="waiting", key="k", unique_seconds=60)
        name = "default.gone"
        seen = Seen(
            EPOCH, 600, 7, EPOCH, left={"default": {State.COMPLETED: 1}}, state=State.COMPLETED,
            queue="default", type="work", life=1, stretch=5, ended_at=EPOCH, is_made=True,
        )  # fmt: skip
        await world.store.put(summary_key(shard_of(name)), encode_summary({name: seen}), Create())
        for key in await world.keys(""):
            path = GOLDEN / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((await world.store.get(key)).data)

    asyncio.run(write())
