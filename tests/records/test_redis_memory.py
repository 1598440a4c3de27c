"""What a queue takes of a Redis's memory, and how its events leave it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis

import penstock
from penstock import NewJob, Queue
from penstock.engines.records.redis import store as redis_store
from penstock.errors import Gap
from penstock.kernel.events import Event
from penstock.runtime.services import Services
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.steps import completed
from tests.records.redis_stores import TimedRedisQueue
from tests.servers.redis import OwnRedis, Redis, own_redis, own_valkey

DAY_SECONDS = 86_400.0
JOBS = 500
BYTES_PER_JOB_MAX = 1_200
PER_BUCKET = 32


@pytest.fixture(params=["redis", "valkey"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OwnRedis]:
    start = own_redis if request.param == "redis" else own_valkey
    with start(tmp_path, "--save", "") as server:
        yield server


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def queue(redis_server: Redis, clock: FakeClock) -> AsyncIterator[Queue]:
    place, services = TimedRedisQueue(redis_server.url, clock), Services(clock=clock)
    async with penstock.open(store=place.connect(services), services=services) as queue:
        yield queue


async def events_of(queue: Queue, since: str | int = "beginning") -> list[Event]:
    return [event async for event in queue.events(since, follow=False)]


async def test_a_job_that_was_done_by_itself_takes_little(server: OwnRedis) -> None:
    """With the three commits of its events, and its record as long as that stays."""
    with redis.Redis.from_url(server.url) as client:

        def used() -> int:
            return int(client.info("memory")["used_memory"])

        async with penstock.open(server.url) as queue:
            await completed(queue)
            before = used()
            for n in range(JOBS):
                await queue.enqueue("work", {"n": n})
                await queue.ack(await queue.claim(1))
            taken = (used() - before) / JOBS
    assert taken <= BYTES_PER_JOB_MAX


async def test_events_of_any_size_come_back_as_they_were(queue: Queue) -> None:
    payloads = [{"text": "x" * size} for size in (1, 3_000, 5_000, 200_000, 260_000)]
    for payload in payloads:
        await queue.enqueue("work", payload)
    # More than is deflated, in one commit.
    await queue.enqueue_many([NewJob("work", payloads[-1]) for _ in range(6)])
    payloads += [payloads[-1]] * 6
    told = [one.payload for one in await events_of(queue)]  # type: ignore[union-attr]
    assert [len(bytes(one)) for one in told] == [len(one["text"]) + 11 for one in payloads]


async def test_old_events_leave_with_new_commits_and_nobody_vacuums(
    queue: Queue, clock: FakeClock
) -> None:
    for _ in range(PER_BUCKET):
        await completed(queue)
    [first, *_] = await events_of(queue)
    await clock.advance(DAY_SECONDS + 1)
    for _ in range(PER_BUCKET + 1):
        await completed(queue)
    with pytest.raises(Gap):
        await events_of(queue, first.position)
    assert len(await events_of(queue)) < 3 * (PER_BUCKET + 2) + 1


async def test_events_that_a_consumer_has_yet_to_read_stay(queue: Queue, clock: FakeClock) -> None:
    await completed(queue)
    [first, *_] = await events_of(queue)
    await queue.move_consumer("reader", first.position)
    for _ in range(3):
        await clock.advance(DAY_SECONDS + 1)
        for _ in range(PER_BUCKET + 1):
            await completed(queue)
    await events_of(queue, first.position)


async def test_a_retention_that_was_chosen_is_kept(queue: Queue, clock: FakeClock) -> None:
    assert queue.capabilities.log_retention_seconds == DAY_SECONDS
    await queue.configure(log_retention_seconds=7 * DAY_SECONDS)
    await completed(queue)
    [first, *_] = await events_of(queue)
    await clock.advance(6 * DAY_SECONDS)
    for _ in range(PER_BUCKET):
        await completed(queue)
    await queue.vacuum()
    assert await events_of(queue, first.position)


async def test_events_take_no_more_than_they_may_and_that_is_said_before(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(redis_store, "EVENTS_BYTES_MAX", 100_000)
    await completed(queue)
    [first, *_] = await events_of(queue)
    while not any("before their time" in said for said in caplog.messages):
        await completed(queue)
    reads = len(await events_of(queue, first.position))
    assert reads, "so far nothing went"
    for _ in range(4 * PER_BUCKET):
        await completed(queue)
    with pytest.raises(Gap):
        await events_of(queue, first.position)
    assert 0 < len(await events_of(queue)) < 2 * reads
