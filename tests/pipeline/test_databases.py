"""Redis and PostgreSQL through the same sources: read, kept up with, checked, replayed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.pipeline.checking.check import check
from penstock.pipeline.operations.replaying import Replayed, chosen
from penstock.pipeline.run import Plan, opened_pipeline
from tests.cli.running import got
from tests.pipeline.comparing import cursor, stored
from tests.pipeline.queues import read, rows, write_lives
from tests.records.postgres_stores import new_schema
from tests.servers.postgres import Postgres
from tests.servers.redis import Redis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

EVENTS = 11


@pytest.fixture(params=["redis", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """A queue of its own on each server."""
    if request.param == "redis":
        server: Redis = request.getfixturevalue("redis_server")
        return f"{server.url}?prefix={new_schema()}"
    database: Postgres = request.getfixturevalue("postgres_server")
    return f"{database.new_database()}?schema={new_schema()}"


def test_a_database_is_read_kept_up_with_checked_and_replayed(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    asyncio.run(write_lives(url))
    told = rows(read(spark, url, "events", partitions=2), "position", "event", "id")
    assert len(told) == EVENTS
    states = rows(read(spark, url, "jobs"), "id", "state")
    assert states == [("a", "completed"), ("c", "cancelled"), ("b", "pending")]
    warehouse = tmp_path / "warehouse"
    with opened_pipeline(spark, Plan(url, str(warehouse))) as pipeline:
        pipeline.run_once()
        assert pipeline.run_once().tables == {}
        reached = cursor(warehouse)
        with chosen(spark, url, "id = 'c'") as jobs:
            assert jobs.replay() == Replayed(replayed=1)
        pipeline.run_once()
    assert cursor(warehouse) > reached
    kept = stored(warehouse, "events").select(["position", "event", "id"]).to_pylist()
    of_jobs = [row for row in kept if row["id"] is not None]
    assert len(of_jobs) == EVENTS + 1
    assert {row["position"] for row in of_jobs} >= {position for position, _, _ in told}
    assert check(url, spark=spark).collect() == []
    with penstock.open_sync(url) as queue:
        assert got(queue, "c").state == "pending"
