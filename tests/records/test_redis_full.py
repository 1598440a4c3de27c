"""A Redis without memory: what adds is refused, all else goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

import penstock
from penstock.errors import StoreFull
from penstock.kernel.job import State
from penstock.testing.conformance.backend.steps import AT_ONCE, nonzero
from tests.servers.redis import OwnRedis, own_redis, own_valkey

JOBS = 12


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRedis]:
    with own_valkey(tmp_path_factory.mktemp("valkey"), "--save", "") as server:
        yield server


@contextmanager
def full(server: OwnRedis) -> Iterator[None]:
    with redis.Redis.from_url(server.url) as client:
        client.config_set("maxmemory", 1)
        try:
            yield
        finally:
            client.config_set("maxmemory", 0)


async def test_a_full_server_refuses_only_what_adds(valkey: OwnRedis) -> None:
    async with penstock.open(valkey.url, offload=True, payload_bytes_max=100) as queue:
        for n in range(JOBS):
            await queue.enqueue("work", id=f"job-{n}", retry=AT_ONCE)
        assert queue.capabilities.works_when_full
        with full(valkey):
            with pytest.raises(StoreFull, match="only what adds is refused"):
                await queue.enqueue("work", id="refused")
            with pytest.raises(StoreFull):
                await queue.enqueue("work", "x" * 1_000, id="large")
            kept, again, back, cancelled, expiring = await queue.claim(5)
            await queue.heartbeat(kept, progress=0.5)
            await queue.nack(again, "boom")
            await queue.release(back)
            assert await queue.cancel(cancelled.id) != "not_found"
            await queue.ack(kept, "done")
            await queue.heartbeat(expiring, lease_seconds=0.001)
            await queue.vacuum()
            await queue.pause("elsewhere")
            async with penstock.open(valkey.url) as other:
                ended = 2
                while ended < JOBS:
                    claimed = await other.claim(JOBS, wait_seconds=60)
                    assert claimed
                    await other.ack(claimed)
                    ended += len(claimed)
                assert len([job async for job in other.jobs()]) == JOBS
                events = [event async for event in other.events("beginning", follow=False)]
                assert "expired" in {event.event for event in events}
                totals = nonzero((await other.stats()).totals)
                assert totals == {State.COMPLETED: JOBS - 1, State.CANCELLED: 1}
        assert (await queue.enqueue("work", id="refused")).status == "queued"


async def test_what_needs_room_does_not_stop_what_came_with_it(valkey: OwnRedis) -> None:
    async with penstock.open(f"{valkey.url}?prefix=together") as queue:
        for _ in range(JOBS):
            await queue.enqueue("work")
        jobs = await queue.claim(JOBS)
        with full(valkey):
            enqueues = [queue.enqueue("work") for _ in range(JOBS)]
            done = await asyncio.gather(
                *enqueues, *(queue.ack(job) for job in jobs), return_exceptions=True
            )
        assert all(isinstance(one, StoreFull) for one in done[:JOBS])
        assert done[JOBS:] == [None] * JOBS
        assert nonzero((await queue.stats()).totals) == {State.COMPLETED: JOBS}


async def test_bookkeeping_beside_the_queue_needs_no_room(valkey: OwnRedis) -> None:
    async with penstock.open(f"{valkey.url}?prefix=beside") as queue:
        with full(valkey):
            assert await queue.elect("monitor", "me", 10.0)


async def test_a_server_that_can_do_nothing_when_it_is_full_says_so(
    tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ("--maxmemory", "1gb", "--appendonly", "yes", "--appendfsync", "always")
    with own_redis(tmp_path_factory.mktemp("redis"), *settings) as server:
        with redis.Redis.from_url(server.url) as client:
            version = client.info("server")["redis_version"]
        async with penstock.open(server.url) as queue:
            is_old = version.startswith("6.")
            assert queue.capabilities.works_when_full is not is_old
            assert any("not even an acknowledgement" in one for one in caplog.messages) is is_old
