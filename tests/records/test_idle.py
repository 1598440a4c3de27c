"""An empty claim costs nothing: no server has anything to write for it, whatever is ripe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import redis

import penstock
from penstock import NewJob, Queue
from tests.records.own_postgres import own_postgres
from tests.servers.redis import own_redis

CLAIMS = 40
RIPE = 1_500
"""Of the finished jobs more than leave with the turn that makes them ripe."""
WAL_BYTES_MAX = 2_000
"""What the server writes by itself meanwhile; one claim that locked what is ripe wrote 50,000."""

Written = Callable[[], int]
"""How much the server has written so far, in units of its own."""


@pytest.fixture(params=[pytest.param("postgres", marks=pytest.mark.xdist_group("postgres")),
                        "redis", "sqlite"])  # fmt: skip
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Written, int]]:
    """The URL of a queue on a server of its own, what was written there, and how much may be."""
    match request.param:
        case "postgres":
            with own_postgres() as server:
                yield server.url, lambda: _wal_bytes(server.url), WAL_BYTES_MAX
        case "redis":
            with own_redis(tmp_path, "--save", "") as server:
                yield server.url, lambda: _changes(server.url), 0
        case _:
            path = tmp_path / "queue.db"
            yield f"sqlite://{path}", lambda: Path(f"{path}-wal").stat().st_size, 0


@pytest.mark.asyncio
@pytest.mark.parametrize("ripe", [0, RIPE])
async def test_an_empty_claim_writes_nothing_whatever_is_ripe(
    place: tuple[str, Written, int], ripe: int
) -> None:
    url, written, most = place
    async with penstock.open(url) as queue:
        await _finish(queue, ripe + 1_000)
        await queue.configure(result_ttl_seconds=0 if ripe else 3_600)
        assert await queue.claim() == []
        before = written()
        for _ in range(CLAIMS):
            assert await queue.claim(10) == []
        assert written() - before <= most


@pytest.mark.asyncio
async def test_what_is_ripe_leaves_with_the_next_turn_that_writes(
    place: tuple[str, Written, int],
) -> None:
    url, _, _ = place
    async with penstock.open(url) as queue:
        await _finish(queue, RIPE + 1_000)
        await queue.configure(result_ttl_seconds=0)
        assert await queue.claim() == []
        await queue.enqueue("work")
        assert len(await queue.claim()) == 1
        assert (await queue.stats()).jobs == 1


@pytest.mark.asyncio
async def test_what_is_ripe_in_an_idle_queue_leaves_with_whoever_keeps_house(
    place: tuple[str, Written, int],
) -> None:
    url, _, _ = place
    async with penstock.open(url) as queue:
        await _finish(queue, RIPE + 1_000)
        await queue.configure(result_ttl_seconds=0)
        assert (await queue.stats()).jobs == RIPE
        for _ in range(2):
            assert await queue.expire() == 0
        assert (await queue.stats()).jobs == 0


async def _finish(queue: Queue, jobs: int) -> None:
    await queue.enqueue_many([NewJob("work") for _ in range(jobs)])
    claimed = await queue.claim(jobs)
    assert len(claimed) == jobs
    await queue.ack(claimed)


def _wal_bytes(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()
    assert row is not None
    return int(row[0])


def _changes(url: str) -> int:
    with redis.Redis.from_url(url) as client:
        return int(client.info("persistence")["rdb_changes_since_last_save"])
