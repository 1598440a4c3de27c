"""What a claim, and whoever counts, asks of a Redis where there are many lanes.

In commands that the server ran; nobody else uses this one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeAlias
from uuid import uuid4

import pytest
import redis

import penstock
from penstock import NewJob, Queue
from penstock.runtime.services import Services
from penstock.testing.clock import FakeClock
from tests.records.redis_stores import TimedRedisQueue
from tests.servers.redis import OwnRedis, Redis, own_redis

LANES = 2_000
HOUR_SECONDS = 3_600.0
TRIES = 3
COMMANDS_MORE_MAX = 10
"""Where a lane becomes empty, or begins."""

MakeJob: TypeAlias = Callable[[int], NewJob]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRedis]:
    with own_redis(tmp_path_factory.mktemp("redis"), "--save", "") as server:
        yield server


@pytest.fixture
async def queue(own: OwnRedis) -> AsyncIterator[Queue]:
    async with penstock.open(f"{own.url}?prefix={uuid4().hex}") as queue:
        yield queue


async def commands_of(own: OwnRedis, act: Callable[[], Awaitable[object]]) -> int:
    """The fewest of some tries: a handle compares clocks now and then."""
    spent: list[int] = []
    with redis.Redis.from_url(own.url) as client:
        for _ in range(TRIES):
            client.config_resetstat()
            await act()
            told: Any = client.info("commandstats")
            spent.append(sum(each["calls"] for each in told.values()))
    return min(spent)


async def claim_and_release(queue: Queue, types: list[str] | None = None) -> None:
    [claimed] = await queue.claim(1, types=types)
    await queue.release(claimed)


KINDS: dict[str, MakeJob] = {
    "queues": lambda n: NewJob("work", queue=f"q{n}"),
    "types": lambda n: NewJob(f"t{n}"),
    "pairs": lambda n: NewJob(f"t{n % 40}", queue=f"q{n // 40}"),
    "priorities": lambda n: NewJob("work", priority=n),
}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
async def test_a_claim_that_names_nothing_costs_the_same_however_many_lanes_there_are(
    own: OwnRedis, queue: Queue, make: MakeJob
) -> None:
    spent: list[int] = []
    for first, last in ((0, 1), (1, LANES)):
        await queue.enqueue_many([make(n) for n in range(first, last)])
        spent.append(await commands_of(own, lambda: claim_and_release(queue)))
    assert spent[1] <= spent[0] + COMMANDS_MORE_MAX, spent


@pytest.mark.parametrize(
    "make", [KINDS["queues"], KINDS["priorities"]], ids=["queues", "priorities"]
)
async def test_a_claim_by_type_costs_the_same_however_many_lanes_of_it_there_are(
    own: OwnRedis, queue: Queue, make: MakeJob
) -> None:
    spent: list[int] = []
    for first, last in ((0, 1), (1, LANES)):
        await queue.enqueue_many([make(n) for n in range(first, last)])
        spent.append(await commands_of(own, lambda: claim_and_release(queue, types=["work"])))
    assert spent[1] <= spent[0] + COMMANDS_MORE_MAX, spent


async def test_lanes_in_which_nothing_is_due_are_not_in_the_way(
    own: OwnRedis, queue: Queue
) -> None:
    spent: list[int] = []
    for first, last in ((0, 1), (1, LANES)):
        await queue.enqueue_many(
            [NewJob(f"t{n}", priority=-n, delay_seconds=HOUR_SECONDS) for n in range(first, last)]
        )
        await queue.enqueue("now", priority=9)
        spent.append(await commands_of(own, lambda: claim_and_release(queue)))
        [claimed] = await queue.claim(2)
        assert claimed.type == "now"
        await queue.ack(claimed)
    assert spent[1] <= spent[0] + COMMANDS_MORE_MAX, spent


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
async def test_counting_opens_no_lanes(own: OwnRedis, queue: Queue, make: MakeJob) -> None:
    spent: list[int] = []
    for first, last in ((0, 1), (1, LANES)):
        await queue.enqueue_many([make(n) for n in range(first, last)])
        assert (await queue.stats()).totals["pending"] == last
        spent.append(await commands_of(own, queue.stats))
    assert spent[1] <= spent[0] + COMMANDS_MORE_MAX, spent


async def test_lanes_that_come_due_are_claimed_by_priority_and_time(redis_server: Redis) -> None:
    clock = FakeClock()
    place, services = TimedRedisQueue(redis_server.url, clock), Services(clock=clock)
    async with penstock.open(store=place.connect(services), services=services) as queue:
        for n in range(12):
            await queue.enqueue(
                f"t{n}",
                id=f"{n % 3}-{n:02}",
                queue=f"q{n % 4}",
                priority=n % 3,
                delay_seconds=60.0 + n,
            )
        await queue.enqueue("last", id="9", priority=9)
        await clock.advance(66.5)
        expected = [*sorted(f"{n % 3}-{n:02}" for n in range(7)), "9"]
        got = [(await queue.claim(1))[0].id for _ in expected]
        assert got == expected
        await clock.advance(60.0)
        rest = sorted(f"{n % 3}-{n:02}" for n in range(7, 12))
        assert [one.id for one in await queue.claim(99)][: len(rest)] == rest
