"""Import objects in the store: read when needed, checked, published once, swept in the end."""

from __future__ import annotations

import pickle
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock
from penstock import NewJob, Queue
from penstock.errors import (
    Corrupt,
    InvalidInput,
    InvalidJob,
    OutcomeUnknown,
    PayloadInvalid,
    PayloadTooLarge,
    RunAborted,
    StoreError,
)
from penstock.kernel.commands import StageImport
from penstock.kernel.job import State
from penstock.kernel.manifest import CHUNK_ROWS_MAX, ImportManifest
from penstock.ports.store import Overwrite
from penstock.runtime.services import Services
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.steps import found, ids, nonzero
from penstock.testing.faults import Fault
from penstock.testing.faulty_store import FaultyStore
from tests.engines.stores import Recorded, checkpointed, keys

DAY_SECONDS = 24 * 3600.0
LAYOUTS = {"log": "log/", "single": "queue.json"}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(autojump=True)


@pytest.fixture
def store(clock: FakeClock) -> MemoryStore:
    return MemoryStore(now=clock.now)


@pytest.fixture(params=LAYOUTS)
async def queue(
    request: pytest.FixtureRequest, store: MemoryStore, clock: FakeClock
) -> AsyncIterator[Queue]:
    async with open_queue(store, clock, layout=request.param) as queue:
        yield queue


def open_queue(store: Any, clock: FakeClock, **options: Any) -> Queue:
    return penstock.open(store=store, services=Services(clock=clock), **options)


def some(count: int, **options: Any) -> list[NewJob]:
    return [NewJob("work", {"n": n}, **options) for n in range(count)]


async def import_keys(store: MemoryStore) -> list[str]:
    return await keys(store, "import/")


async def test_the_log_alone_rebuilds_what_was_admitted(
    store: MemoryStore, clock: FakeClock
) -> None:
    async with open_queue(store, clock) as queue:
        await queue.import_jobs("run", some(CHUNK_ROWS_MAX + 5))
        assert len(await queue.claim(3)) == 3
        await checkpointed(store, 2)
        for key in await import_keys(store):
            await store.delete(key)
        async with open_queue(store, clock) as other:
            assert (await other.stats()).unadmitted == 5
            assert len(await other.claim(9999)) == CHUNK_ROWS_MAX - 3


async def test_an_object_is_read_once_for_all_its_chunks(
    store: MemoryStore, clock: FakeClock
) -> None:
    recorded = Recorded(store)
    async with open_queue(recorded, clock) as queue:
        await queue.import_jobs("run", some(3 * CHUNK_ROWS_MAX))
        recorded.requests.clear()
        while jobs := await queue.claim(700):
            await queue.ack(jobs)
        reads = [key for what, key in recorded.requests if what == "get" and "import/" in key]
        assert len(reads) == 1


@pytest.mark.parametrize("damage", ["altered", "truncated", "gone"])
async def test_a_bad_object_is_said_and_nothing_is_lost(
    queue: Queue, store: MemoryStore, clock: FakeClock, damage: str
) -> None:
    await queue.import_jobs("run", some(2))
    [key] = await import_keys(store)
    good = (await store.get(key)).data
    if damage == "gone":
        await store.delete(key)
    else:
        bad = good[:-5] if damage == "truncated" else good.replace(b'"n":1', b'"n":2')
        await store.put(key, bad, Overwrite())
    with pytest.raises(Corrupt, match="import/run/"):
        await queue.claim()
    with pytest.raises(Corrupt, match="import/run/"):
        await queue.get("run.0")
    with pytest.raises(Corrupt):
        await queue.cancel("run.1")
    await queue.enqueue("other", id="other")
    assert [job.id for job in await queue.claim(types=["other"])] == ["other"], "others go on"
    await store.put(key, good, Overwrite())
    assert [job.payload for job in await queue.claim(9)] == [{"n": 0}, {"n": 1}]


@pytest.mark.parametrize(
    "fault", [Fault.LOST_ANSWER, Fault.LOST_REQUEST, Fault.ECHO, Fault.THROTTLED, Fault.LATE]
)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("times", [1, 3])
async def test_a_publication_whose_answer_is_lost_happens_once(
    store: MemoryStore, clock: FakeClock, layout: str, fault: Fault, times: int
) -> None:
    faulty = FaultyStore(store, clock, Random(1))
    async with open_queue(faulty, clock, layout=layout) as queue:
        await queue.enqueue("work", id="before")
        faulty.fail_next("put", fault, prefix=LAYOUTS[layout], times=times)
        for _ in range(5):
            try:
                await queue.import_jobs("run", some(3))
                break
            except (OutcomeUnknown, StoreError):
                continue
        assert (await queue.import_jobs("run", some(3))).status == "already published"
        assert len(await queue.claim(99)) == 4
    async with open_queue(store, clock) as other:
        assert sorted(await ids(other)) == ["before", "run.0", "run.1", "run.2"]


async def test_two_who_publish_one_run_at_once_make_it_once(
    queue: Queue, store: MemoryStore, clock: FakeClock
) -> None:
    async with open_queue(store, clock) as other:
        first = await queue.import_jobs("run", some(2))
        second = await other.import_jobs("run", some(2))
        assert (first.status, second.status) == ("published", "already published")
        assert len(await other.claim(1)) + len(await queue.claim(9)) == 2


async def test_rows_with_keys_go_on_where_somebody_stopped(
    store: MemoryStore, clock: FakeClock
) -> None:
    class Enough(Exception):
        pass

    def stop(reached: int, rows: int) -> None:
        if reached:
            raise Enough

    jobs = [NewJob("work", id=f"job {n}") for n in range(9 * CHUNK_ROWS_MAX)]
    async with open_queue(store, clock) as queue:
        with pytest.raises(Enough):
            await queue.import_jobs("run", jobs, progress=stop)
        begun = (await queue.stats()).totals["pending"]
        assert 0 < begun < len(jobs)
    async with open_queue(store, clock) as other:
        told: list[int] = []
        receipt = await other.import_rows("run", progress=lambda reached, _: told.append(reached))
        assert (receipt.status, receipt.jobs, told[0]) == ("published", len(jobs), begun)
        assert nonzero((await other.stats()).totals) == {"pending": len(jobs)}


async def test_vacuum_deletes_an_object_when_all_of_it_was_admitted_long_ago(
    queue: Queue, store: MemoryStore, clock: FakeClock
) -> None:
    await queue.import_jobs("run", some(2))
    clock.jump(30 * DAY_SECONDS)
    assert (await queue.vacuum()).import_objects == 0
    assert len(await queue.claim(9)) == 2
    assert (await queue.vacuum()).import_objects == 0, "somebody may still lag behind"
    clock.jump(8 * DAY_SECONDS)
    assert (await queue.vacuum()).import_objects == 1
    assert await import_keys(store) == []
    assert (await queue.import_jobs("run", some(2))).status == "already published"


async def test_vacuum_gives_up_runs_that_nobody_published(
    queue: Queue, store: MemoryStore, clock: FakeClock
) -> None:
    await queue._backend.keep_import("forgotten", b"{}\n")
    assert (await queue.vacuum()).import_objects == 0
    clock.jump(8 * DAY_SECONDS)
    await queue._backend.keep_import("fresh", b"{}\n")
    assert (await queue.vacuum()).import_objects == 1
    assert [key.split("/")[1] for key in await import_keys(store)] == ["fresh"]
    with pytest.raises(RunAborted):
        await queue.publish_import("forgotten", [])


async def test_vacuum_deletes_what_a_published_run_left_over(
    queue: Queue, store: MemoryStore, clock: FakeClock
) -> None:
    await queue._backend.keep_import("run", b"{}\n")
    await queue.import_jobs("run", some(2))
    clock.jump(8 * DAY_SECONDS)
    assert (await queue.vacuum()).import_objects == 1
    assert [job.payload for job in await queue.claim(9)] == [{"n": 0}, {"n": 1}]


async def test_vacuum_keeps_a_run_that_is_being_enqueued(
    queue: Queue, store: MemoryStore, clock: FakeClock
) -> None:
    await queue._backend.keep_import("run", b"{}\n")
    await queue._backend.execute(StageImport("", "run", ()))
    await queue.import_jobs("keyed", some(2, key="k"))
    clock.jump(8 * DAY_SECONDS)
    assert (await queue.vacuum()).import_objects == 2


async def test_an_aborted_run_leaves_no_object(queue: Queue, store: MemoryStore) -> None:
    await queue._backend.keep_import("run", b"{}\n")
    await queue.abort_import("run")
    assert await import_keys(store) == []


def test_a_writer_needs_no_queue_and_its_manifest_can_be_sent(tmp_path: Path) -> None:
    url = f"file://{tmp_path}"
    with penstock.import_writer(url, "run", tenant="acme") as writer:
        writer.add("send", '{"to": "a@example.com"}')
        writer.add("send", b"\x00\xff", codec="raw", queue="mail", priority=-1)
        writer.add("send", "[\n  1\n]", tenant="bolt", run_at=5.0, meta={"a": 1})
        writer.add("send")
    manifest = pickle.loads(pickle.dumps(writer.manifest))
    assert isinstance(manifest, ImportManifest)
    assert (manifest.rows, manifest.has_identities, len(manifest.objects)) == (4, False, 1)
    with penstock.open_sync(url, tenant="acme") as queue:
        assert queue.publish_import("run", [manifest]).jobs == 4
        assert [job.payload for job in queue.claim(9)] == [
            b"\x00\xff", {"to": "a@example.com"}, None,
        ]  # fmt: skip
    with penstock.open_sync(url, tenant="bolt") as queue:
        [job] = queue.claim(9)
        assert (job.payload, job.meta, job.state) == ([1], {"a": 1}, State.RUNNING)


def test_a_writer_that_fails_has_no_manifest(tmp_path: Path) -> None:
    writer = penstock.import_writer(f"file://{tmp_path}", "run")
    with pytest.raises(InvalidJob), writer:
        writer.add("")
    with pytest.raises(InvalidInput):
        _ = writer.manifest
    with pytest.raises(InvalidInput):
        writer.add("send", "1")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"payload": "{"}, PayloadInvalid),
        ({"payload": "nan"}, PayloadInvalid),
        ({"payload": b'"\xff"'}, PayloadInvalid),
        ({"payload": "[" + "1," * 200_000 + "1]"}, PayloadTooLarge),
        ({"type": ""}, InvalidJob),
        ({"type": None}, InvalidJob),
        ({"queue": "a/b"}, InvalidJob),
        ({"priority": 0.5}, InvalidJob),
        ({"priority": True}, InvalidJob),
        ({"run_at": float("nan")}, InvalidJob),
        ({"max_attempts": 0}, InvalidJob),
        ({"timeout_seconds": 0}, InvalidJob),
        ({"timeout_seconds": -1}, InvalidJob),
        ({"meta": {1: 2}}, InvalidJob),
        ({"id": "a/b"}, InvalidJob),
        ({"key": ""}, InvalidJob),
        ({"retry": 3}, InvalidJob),
    ],
)
def test_a_bad_row_is_refused_when_it_is_added(
    tmp_path: Path, arguments: dict[str, Any], error: type[Exception]
) -> None:
    with penstock.import_writer(f"file://{tmp_path}", "run") as writer:
        with pytest.raises(error):
            writer.add(**{"type": "send", **arguments})
        writer.add("send", "1")
    assert writer.manifest.rows == 1


async def test_rows_with_identities_are_not_published_unseen(queue: Queue, tmp_path: Path) -> None:
    with penstock.import_writer(f"file://{tmp_path}", "run") as writer:
        writer.add("send", "1", id="one")
    assert writer.manifest.has_identities
    with pytest.raises(InvalidInput, match="import_rows"):
        await queue.publish_import("run", [writer.manifest])


async def test_a_big_backlog_is_small_in_the_commit_and_in_the_checkpoint(
    store: MemoryStore, clock: FakeClock
) -> None:
    async with open_queue(store, clock) as queue:
        await queue.import_jobs("run", some(20 * CHUNK_ROWS_MAX))
        await checkpointed(store, 1)
        commit = (await store.get("log/00000000000000000001.jsonl")).data
        checkpoint = (await store.get("checkpoint/00000000000000000001.jsonl")).data
        assert len(commit) < 2_000
        assert len(checkpoint) < 2_000
        assert (await found(queue, "run.19999")).payload == {"n": 19_999}
