"""A queue that was moved is the same queue, on whatever it is kept."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import pytest

import penstock
from penstock.client.queue import Queue
from penstock.errors import BeingFilled, MoveConflict, Moved, RunStaged
from penstock.kernel.commands import BeginFilling, MoveQueue, StageImport
from penstock.kernel.events import SYSTEM_TENANT
from penstock.kernel.job import State
from penstock.kernel.manifest import Chunk, SegmentRecord
from penstock.migration.migration import Migration
from penstock.wire.imports import object_record
from tests.migration.ends import (
    KINDS,
    LARGE,
    address,
    end_at,
    everything,
    live_a_little,
    migrate,
    opened,
)
from tests.servers.postgres import Postgres
from tests.servers.redis import Redis

PAIRS = [(source, target) for source in KINDS for target in KINDS]


@pytest.mark.parametrize(("here", "there"), PAIRS, ids="-to-".join)
async def test_everything_arrives_as_it_was(here: str, there: str, tmp_path: Path) -> None:
    await expect_a_whole_move(address(here, tmp_path, "a"), address(there, tmp_path, "b"))


@pytest.mark.parametrize(
    ("here", "there"),
    [("log", "redis"), ("redis", "postgres"), ("postgres", "log")],
    ids="-to-".join,
)
async def test_servers_take_part(
    here: str, there: str, tmp_path: Path, redis_server: Redis, postgres_server: Postgres
) -> None:
    urls = {
        "log": address("log", tmp_path, "a"),
        "redis": f"{redis_server.url}?prefix={uuid4().hex}",
        "postgres": postgres_server.new_database(),
    }
    await expect_a_whole_move(urls[here], urls[there])


async def expect_a_whole_move(source: str, target: str) -> None:
    async with opened(source) as queue, opened(source, "acme") as neighbour:
        held = await live_a_little(queue)
        await neighbour.enqueue("work", id="job 1", key="k")
        before = await everything(source)
        report = await migrate(source, target)
        assert (report.status, report.jobs) == ("moved", 20)
        assert report.paused == ["default/reports"]
        assert await everything(source) == before == await everything(target)
        with pytest.raises(Moved, match=re.escape(target.partition("?")[0])):
            await queue.claim()
    async with opened(target) as queue, opened(target, "acme") as neighbour:
        await expect_it_goes_on(queue, held)
        assert (await neighbour.enqueue("work", key="k")).id == "job 1"


async def expect_it_goes_on(queue: Queue, held: list[penstock.Job]) -> None:
    assert queue.settings.result_ttl_seconds == 7200
    large, result, keyed = await queue.get(["large", "large result", "keyed"])
    assert (large and large.payload, result and result.result) == (LARGE, LARGE)
    assert keyed is not None
    assert keyed.result == {"ok": True}
    assert (await queue.enqueue("work", key="k")).status == "completed"
    assert (await queue.enqueue("report", queue="images", key="live")).id == "held 1"
    waiting = await queue.claim(99, lease_seconds=60)
    assert [job.id for job in waiting] == ["retried", *(f"job {n}" for n in range(10)), "large"]
    assert min(map(fence_of, waiting)) > max(map(fence_of, held))
    await queue.ack(held, "done")
    assert [job.state async for job in queue.jobs(queue="images")] == [State.COMPLETED] * 2
    assert await queue.replay("failed") is State.PENDING
    await queue.unarchive("archived")
    assert [event.event for event in await queue.history("archived")] == ["adopted", "unarchived"]


def fence_of(job: penstock.Job) -> int:
    assert job.lease is not None
    return job.lease.fence


async def test_a_key_of_a_job_that_has_left_stays_held(tmp_path: Path) -> None:
    source, target = (address(kind, tmp_path, kind) for kind in ("log", "sqlite"))
    async with opened(source) as queue:
        await queue.configure(result_ttl_seconds=0)
        await queue.enqueue("work", id="gone", key="k", unique_seconds=3600)
        await queue.ack((await queue.claim())[0])
        await queue.enqueue("work", id="gone")
    assert (await migrate(source, target)).keys == 1
    async with opened(target) as queue:
        receipt = await queue.enqueue("work", key="k")
        assert (receipt.status, receipt.id, receipt.state) == ("duplicate", "gone", None)


@pytest.mark.parametrize("there", ["log", "sqlite"])
async def test_rows_that_are_not_admitted_yet_arrive_in_order(there: str, tmp_path: Path) -> None:
    source, target = address("log", tmp_path, "a"), address(there, tmp_path, "b")
    async with opened(source) as queue:
        await queue.enqueue("work", id="before")
        rows = [penstock.NewJob("work", n, priority=0) for n in range(25)]
        await queue.import_jobs("run", rows)
        await queue.cancel("run.7")
        await queue.enqueue("work", id="after")
    assert (await migrate(source, target)).jobs == 27
    async with opened(target) as queue:
        claimed = [job.id for job in await queue.claim(99)]
        expected = [f"run.{n}" for n in range(25) if n != 7]
        assert claimed == ["before", *expected, "after"]
        if there == "log":
            again = await queue.import_jobs("run", rows)
            assert again.status == "already published"


async def test_a_run_that_is_being_enqueued_keeps_the_queue_where_it_is(tmp_path: Path) -> None:
    source, target = (address("log", tmp_path, name) for name in "ab")
    async with opened(source) as queue:
        key = await queue._backend.keep_import("begun", b'{"id":"x"}\n')
        segment = SegmentRecord("q", "work", (Chunk(11, 1, 0.0),), 0, 0, "default")
        begun = object_record(key, b'{"id":"x"}\n', [segment])
        await queue._backend.execute(StageImport(SYSTEM_TENANT, "begun", (begun,)))
        with pytest.raises(RunStaged, match="begun"):
            await migrate(source, target)
        await queue.enqueue("work")
        await queue.abort_import("begun")
    async with opened(target) as queue:
        await queue.enqueue("work")
    assert (await migrate(source, target)).jobs == 1


@pytest.mark.parametrize("there", KINDS)
async def test_a_conflict_is_named_before_anything_is_closed(there: str, tmp_path: Path) -> None:
    source, target = address("log", tmp_path, "a"), address(there, tmp_path, "b")
    async with opened(source) as here, opened(target) as other:
        await here.enqueue_many([penstock.NewJob("work", id=id) for id in ("a", "b")])
        await here.enqueue("work", id="c", key="k")
        await other.enqueue("work", id="b")
        await other.enqueue("work", id="own", key="k")
        async with end_at(source) as one, end_at(target) as two:
            preview = await Migration(one, two).preview()
            assert len(preview.conflicts) == 2
            with pytest.raises(MoveConflict, match=r"job 'b' .* key 'k' of 'default'") as raised:
                await Migration(one, two).run()
        assert raised.value.count == 2
        assert len(await here.claim(9)) == 3
        assert len(await other.claim(9)) == 2


async def test_a_queue_may_move_into_one_that_has_other_jobs(tmp_path: Path) -> None:
    source, target = address("single", tmp_path, "a"), address("log", tmp_path, "b")
    async with opened(source) as here, opened(target) as there:
        await there.configure(result_ttl_seconds=5)
        await there.enqueue("work", id="own")
        await here.enqueue("work", id="came")
        report = await migrate(source, target)
        assert (report.jobs, report.keeps_settings) == (1, True)
        assert [job.id for job in await there.claim(9)] == ["own", "came"]
        assert there.settings.result_ttl_seconds == 5


async def test_a_queue_moves_on_from_where_it_came_to(tmp_path: Path) -> None:
    urls = [address(kind, tmp_path, f"{n}") for n, kind in enumerate(("log", "sqlite", "single"))]
    async with opened(urls[0]) as queue:
        held = await live_a_little(queue)
    before = await everything(urls[0])
    for source, target in pairwise(urls):
        await migrate(source, target)
        assert (await migrate(source, target)).status == "moved before"
    assert await everything(urls[-1]) == before
    async with opened(urls[-1]) as queue:
        await expect_it_goes_on(queue, held)
    with pytest.raises(Moved):
        await migrate(urls[0], address("log", tmp_path, "elsewhere"))
    with pytest.raises(Moved):
        await migrate(urls[2], urls[0])


async def test_a_preview_changes_nothing(tmp_path: Path) -> None:
    source, target = address("log", tmp_path, "a"), address("sqlite", tmp_path, "b")
    async with opened(source) as queue, opened(target) as there:
        await live_a_little(queue)
        commits = [(await handle.stats()).commit for handle in (queue, there)]
        async with end_at(source) as one, end_at(target) as two:
            preview = await Migration(one, two).preview()
        assert (preview.status, preview.jobs, preview.conflicts) == ("would move", 19, [])
        assert [(await handle.stats()).commit for handle in (queue, there)] == commits


async def test_an_aborted_move_leaves_both_queues_open(tmp_path: Path) -> None:
    source, target = address("log", tmp_path, "a"), address("sqlite", tmp_path, "b")
    async with opened(source) as queue, end_at(source) as one, end_at(target) as two:
        await queue.enqueue("work", id="a")
        migration = Migration(one, two)
        assert not await migration.abort()
        move = await two.backend.execute(_begin(source))
        await one.backend.execute(MoveQueue("", move.id, target))
        with pytest.raises(Moved):
            await queue.claim()
        assert await migration.abort()
        assert len(await queue.claim()) == 1
        assert (await migration.run()).jobs == 1


async def test_a_target_is_filled_from_one_queue_at_a_time(tmp_path: Path) -> None:
    source, target = address("log", tmp_path, "a"), address("sqlite", tmp_path, "b")
    async with opened(source) as queue, end_at(target) as two:
        await two.backend.execute(_begin("s3://another"))
        with pytest.raises(BeingFilled, match="s3://another"):
            await migrate(source, target)
        await queue.enqueue("work")


def _begin(source: str) -> BeginFilling:
    return BeginFilling(SYSTEM_TENANT, "m", source, 2e9)
