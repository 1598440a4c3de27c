"""What a handle knows of running records in Redis, and what it does where that has changed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from random import Random
from typing import Any
from uuid import uuid4

import pytest
import redis

import penstock
from penstock import NewJob, Queue
from penstock.engines.records.redis import known
from penstock.errors import LeaseLost
from tests.servers.redis import OwnRedis, own_redis

JOBS = 20
PAYLOAD_CHARACTERS = 2_000


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRedis]:
    """One that nobody else asks for anything."""
    with own_redis(tmp_path_factory.mktemp("redis"), "--save", "") as server:
        yield server


@pytest.fixture
async def handles(own: OwnRedis) -> AsyncIterator[tuple[Queue, Queue]]:
    url = f"{own.url}?prefix={uuid4().hex}"
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(penstock.open(url))
        yield one, await stack.enter_async_context(penstock.open(url))


async def answered_bytes(own: OwnRedis, queue: Queue, jobs: list[Any]) -> int:
    """What the server sends for the acks of these."""
    with redis.Redis.from_url(own.url) as client:

        def sent() -> int:
            told: Any = client.info("stats")
            return int(told["total_net_output_bytes"])

        sent()
        before = sent()
        await queue.ack(jobs)
        return sent() - before


async def enqueue_some(queue: Queue) -> None:
    luck = Random(1)
    texts = [f"{luck.getrandbits(4 * PAYLOAD_CHARACTERS):x}" for _ in range(JOBS)]
    await queue.enqueue_many([NewJob("work", {"text": text}) for text in texts])


async def test_whoever_has_claimed_a_job_does_not_read_it_again(
    own: OwnRedis, handles: tuple[Queue, Queue]
) -> None:
    one, other = handles
    spent: list[int] = []
    for queue in (one, other):
        await enqueue_some(one)
        spent.append(await answered_bytes(own, queue, await one.claim(JOBS)))
    assert spent[0] < JOBS * PAYLOAD_CHARACTERS // 2 < spent[1], spent


async def test_what_another_has_released_is_not_acked(handles: tuple[Queue, Queue]) -> None:
    one, other = handles
    await enqueue_some(one)
    claimed = await one.claim(JOBS)
    await other.release(claimed[0])
    with pytest.raises(LeaseLost):
        await one.ack(claimed[0])
    await one.ack(claimed[1:])
    assert (await one.stats()).totals == (await other.stats()).totals
    assert (await one.stats()).totals["completed"] == JOBS - 1


async def test_a_lease_that_is_not_the_one_that_is_known_is_not_refused_for_that(
    handles: tuple[Queue, Queue],
) -> None:
    """Where nothing would be written, what is known is not enough."""
    one, other = handles
    await one.enqueue("work", id="a")
    [before] = await one.claim(1)
    await other.release(before)
    [now] = await other.claim(1)
    await one.ack(now)
    assert (await other.stats()).totals["completed"] == 1


async def test_a_turn_that_leaves_a_known_job_as_it_is_sees_it_as_it_is(
    handles: tuple[Queue, Queue],
) -> None:
    """One call is refused for what another handle has done, one goes through, in the same turn."""
    one, other = handles
    for id in ("a", "b"):
        await one.enqueue("work", id=id)
    first, second = await one.claim(2)
    await other.release(first)
    [again] = await other.claim(1)
    assert again.id == first.id
    await one.ack([again, second])
    assert (await one.stats()).totals["completed"] == 2


async def test_what_is_known_has_a_limit(
    handles: tuple[Queue, Queue], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "RECORDS_MAX", 3)
    one, _ = handles
    await enqueue_some(one)
    await one.ack(await one.claim(JOBS))
    assert (await one.stats()).totals["completed"] == JOBS


async def test_jobs_with_keys_and_large_ones_are_read(handles: tuple[Queue, Queue]) -> None:
    one, other = handles
    await one.enqueue("work", key="k", id="keyed")
    await one.enqueue("work", {"text": "x" * known.BODY_BYTES_MAX}, id="large")
    await one.ack(await one.claim(2))
    assert (await other.stats()).totals["completed"] == 2
