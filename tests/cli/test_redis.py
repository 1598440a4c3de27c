"""The command line on a queue in Redis."""

from __future__ import annotations

from uuid import uuid4

import pytest
import redis

import penstock
from tests.cli.running import Penstock
from tests.servers.redis import Redis


@pytest.fixture
def prefix() -> str:
    return uuid4().hex


@pytest.fixture
def run(redis_server: Redis, prefix: str) -> Penstock:
    return Penstock(f"{redis_server.url}?prefix={prefix}")


def test_a_benchmark_has_a_queue_of_its_own_and_leaves_nothing_behind(
    run: Penstock, redis_server: Redis, prefix: str
) -> None:
    with penstock.open_sync(run.url) as queue:
        queue.enqueue("ours")
    phases = run("bench", "--jobs", "20", "--json").lines
    assert [phase["phase"] for phase in phases] == ["enqueue", "claim", "ack"]
    assert run("stats", "--json").object["totals"]["pending"] == 1
    with redis.Redis.from_url(redis_server.url) as client:
        assert not list(client.scan_iter("{penstock_bench_*"))


@pytest.mark.parametrize(
    ("arguments", "is_told"),
    [(["stats"], False), (["list"], False), (["init"], True), (["doctor"], True)],
)
def test_only_who_asks_about_the_server_is_told_how_durable_it_is(
    run: Penstock, arguments: list[str], is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    run("enqueue", "add", "1")
    assert caplog.messages == []
    assert run(*arguments).code == 0
    assert [("durability is relaxed" in said) for said in caplog.messages] == [True] * is_told
