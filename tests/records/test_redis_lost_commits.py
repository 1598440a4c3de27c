"""A Redis that lost its newest commits: restored from an older dump, or restarted with nothing.

Its readers are told, its waiters are woken, and no number that was ever given is given again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from uuid import uuid4

import pytest
import redis

import penstock
from penstock import Queue
from penstock.engines.records.redis.store import RedisStore
from penstock.errors import Gap, LeaseLost
from penstock.kernel.events import Event
from penstock.pipeline.source.chunks import Span
from penstock.pipeline.source.records import COMMITS_PER_READ, RecordsSource
from penstock.runtime.services import Services
from tests.servers.redis import OwnRedis, Redis, own_redis

HANG_SECONDS = 60.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OwnRedis]:
    """It keeps what it is told to save, and nothing else."""
    with own_redis(tmp_path, "--save", "") as server:
        yield server


@pytest.fixture(params=["dump", "nothing"])
def is_saved(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "dump")


def save(server: OwnRedis, is_saved: bool = True) -> None:
    """What a restart gives back: the queue as it is now, or nothing."""
    if is_saved:
        with redis.Redis.from_url(server.url) as client:
            client.save()


def restart(server: OwnRedis) -> None:
    server.kill()
    server.start()


async def all_of(queue: Queue, since: str | int) -> list[Event]:
    return [event async for event in queue.events(since, follow=False)]


async def test_a_live_reader_is_told_that_what_it_read_was_lost(
    server: OwnRedis, is_saved: bool
) -> None:
    async with penstock.open(server.url) as queue:
        await queue.enqueue("work", id="kept")
        save(server, is_saved)
        await queue.enqueue("work", id="lost")
        async with asyncio.timeout(HANG_SECONDS), aclosing(queue.events("beginning")) as stream:  # type: ignore[type-var]
            told = [await anext(stream), await anext(stream)]
            assert [event.event for event in told] == ["enqueued", "enqueued"]
            restart(server)
            with pytest.raises(Gap):
                await anext(stream)


async def test_a_live_reader_is_told_although_the_numbers_have_gone_on(server: OwnRedis) -> None:
    async with penstock.open(server.url) as queue, penstock.open(server.url) as other:
        await queue.enqueue("work", id="kept")
        save(server)
        await queue.enqueue("work", id="lost")
        async with asyncio.timeout(HANG_SECONDS), aclosing(queue.events("beginning")) as stream:  # type: ignore[type-var]
            _ = [await anext(stream), await anext(stream)]
            restart(server)
            for _ in range(20):
                await other.enqueue("work")
            with pytest.raises(Gap):
                await anext(stream)


@pytest.mark.parametrize("later", [0, 20])
async def test_a_reader_that_resumes_at_what_was_lost_is_told(
    server: OwnRedis, is_saved: bool, later: int
) -> None:
    async with penstock.open(server.url) as queue:
        await queue.enqueue("work", id="kept")
        save(server, is_saved)
        for _ in range(5):
            await queue.enqueue("work")
        last = (await all_of(queue, "beginning"))[-1].position
    restart(server)
    async with penstock.open(server.url) as queue:
        for _ in range(later):
            await queue.enqueue("work")
        with pytest.raises(Gap):
            await all_of(queue, last)
        assert len(await all_of(queue, "beginning")) == later + is_saved


async def test_a_reader_that_had_reached_what_is_still_there_goes_on(server: OwnRedis) -> None:
    async with penstock.open(server.url) as queue:
        await queue.enqueue("work", id="kept")
        [kept] = await all_of(queue, "beginning")
        save(server)
        await queue.enqueue("work", id="lost")
    restart(server)
    async with penstock.open(server.url) as queue:
        await queue.enqueue("work", id="new")
        [new] = await all_of(queue, kept.position)
        assert new.position > kept.position


async def test_who_waits_for_jobs_is_given_those_that_have_come_back(server: OwnRedis) -> None:
    async with penstock.open(server.url) as queue, penstock.open(server.url) as other:
        await other.enqueue("work", id="again")
        save(server)
        async with asyncio.timeout(HANG_SECONDS), asyncio.TaskGroup() as group:
            first = await queue.claim(1, wait_seconds=20)
            await queue.ack(first)
            waiting = group.create_task(queue.claim(1, wait_seconds=100 * HANG_SECONDS))
            for _ in range(10):
                # So that it has heard of commits which will be lost.
                await other.ack(await other.claim(1, types=["none"]))
                await other.pause("elsewhere")
                await other.resume("elsewhere")
            restart(server)
        assert [job.id for job in waiting.result()] == ["again"]


async def test_a_call_ends_although_the_server_has_lost_much(server: OwnRedis) -> None:
    async with penstock.open(server.url) as queue, penstock.open(server.url) as other:
        async with asyncio.timeout(HANG_SECONDS), asyncio.TaskGroup() as group:
            call = group.create_task(queue.call("work", timeout_seconds=100 * HANG_SECONDS))
            async with aclosing(other.events("beginning")) as stream:  # type: ignore[type-var]
                await anext(stream)
            save(server)
            for _ in range(10):
                await other.pause("elsewhere")
                await other.resume("elsewhere")
            await other.stats()
            restart(server)
            [job] = await other.claim(1, wait_seconds=20)
            await other.ack(job, "done")
        assert call.result() == "done"


async def test_fences_go_on_above_all_that_were_ever_given(
    server: OwnRedis, is_saved: bool
) -> None:
    async with penstock.open(server.url) as queue:
        await queue.enqueue("work", id="job")
        save(server, is_saved)
        for _ in range(5):
            [job] = await queue.claim(1)
            await queue.release(job)
        [before] = await queue.claim(1)
    restart(server)
    async with penstock.open(server.url) as queue:
        if not is_saved:
            await queue.enqueue("work", id="job")
        [after] = await queue.claim(1)
        assert before.lease is not None
        assert after.lease is not None
        assert after.lease.fence > before.lease.fence
        assert is_saved == (after.life == before.life)
        with pytest.raises(LeaseLost):
            await queue.ack(before)
        await queue.ack(after)


async def test_settings_that_were_lost_are_forgotten(server: OwnRedis) -> None:
    async with penstock.open(server.url) as queue:
        await queue.enqueue("work", id="kept")
        save(server)
        await queue.configure(default_max_attempts=9)
        restart(server)
        await queue.enqueue("work", id="new")
        await queue.stats()
        assert queue.settings.default_max_attempts != 9


async def test_the_pipeline_reads_across_the_numbers_that_a_restart_has_skipped(
    redis_server: Redis,
) -> None:
    store = RedisStore(redis_server.url, uuid4().hex, Services())
    await store.open()
    written = 3 * COMMITS_PER_READ
    async with penstock.open(store=store) as queue:
        for n in range(written):
            if n % 40 == 20:
                # As if another process of the server had given the numbers before.
                await store._connection.ask("HSET", store._keys.head, "run", "another")
                await store._connection.ask("HINCRBY", store._keys.head, "number", 10**9)
            await queue.enqueue("work")
        source = RecordsSource(store)
        bounds = await source.bounds()
        span = Span(bounds.floor, bounds.head)
        forwards = [chunk.last async for chunk in source.chunks(span)]
        backwards = [chunk.last async for chunk in source.chunks(span, backwards=True)]
        assert len(forwards) == written
        assert backwards == forwards[::-1]
        steps, first = 0, span.first
        while first <= span.last:
            first = await source.up_to_commits(Span(first, span.last), written) + 1
            steps += 1
        assert steps < 10
