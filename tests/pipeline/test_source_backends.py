"""The same lives read as tables from every backend that keeps events."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.runtime.services import Services
from penstock.testing.clock import FakeClock
from tests.pipeline.backends import BACKENDS, LOG, SQLITE, Backend
from tests.pipeline.queues import COMMITS, read, rows, write_lives
from tests.pipeline.test_source import STORY
from tests.pipeline.test_source_trouble import says

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WEEK_SECONDS = 7 * 86_400.0


@pytest.fixture(scope="module", params=BACKENDS, ids=repr)
def kind(request: pytest.FixtureRequest) -> Backend:
    kind: Backend = request.param
    return kind


@pytest.fixture(scope="module")
def url(kind: Backend, tmp_path_factory: pytest.TempPathFactory) -> str:
    url = kind.url(tmp_path_factory.mktemp(kind.name))
    asyncio.run(write_lives(url))
    return url


@pytest.mark.parametrize("partitions", [1, 3])
def test_events_tell_the_story(spark: SparkSession, url: str, partitions: int) -> None:
    frame = read(spark, url, "events", partitions=partitions)
    assert rows(frame, "commit", "event", "id") == STORY
    assert frame.rdd.getNumPartitions() == partitions
    assert rows(frame.where("payload is not null and id = 'a'"), "payload") == [('{"id":7}',)]


def test_attempts_are_those_that_ran(spark: SparkSession, url: str) -> None:
    found = rows(read(spark, url, "attempts"), "id", "outcome", "error", "worker")
    assert found == [
        ("a", "completed", None, "w1"),
        ("b", "failed", "boom", "w1"),
        ("c", "retried", "later", "w1"),
    ]


def test_commits_say_what_is_known_of_them(spark: SparkSession, kind: Backend, url: str) -> None:
    found = read(spark, url, "commits", partitions=2).orderBy("commit").collect()
    assert [(row["commit"], row["events"]) for row in found] == [
        *enumerate([1, 2, 3, 1, 1, 1, 1, 1], start=1)
    ]
    assert all((row["size_bytes"] is not None) == (kind is LOG) for row in found)


def test_jobs_are_the_state_of_the_queue(spark: SparkSession, url: str) -> None:
    columns = ("id", "state", "commit", "attempt", "kind", "error", "result")
    assert rows(read(spark, url, "jobs"), *columns) == [
        ("a", "completed", 4, 1, None, None, '{"ok":true}'),
        ("c", "cancelled", 7, 1, "error", "later", None),
        ("b", "pending", 8, 1, "error", "boom", None),
    ]


@pytest.mark.parametrize(
    ("commit", "states"),
    [
        (1, {"a": "pending"}),
        (3, {"a": "running", "b": "running", "c": "running"}),
        (5, {"a": "completed", "b": "failed", "c": "running"}),
    ],
)
def test_jobs_are_as_they_were(
    spark: SparkSession, url: str, commit: int, states: dict[str, str]
) -> None:
    frame = read(spark, url, "jobs", as_of=commit)
    assert dict(frame.select("id", "state").collect()) == states


def test_a_read_is_narrowed_by_its_options(spark: SparkSession, url: str) -> None:
    assert read(spark, url, "events", from_commit=3, to_commit=4).count() == 4
    assert read(spark, url, "events", from_commit=COMMITS + 1).count() == 0
    assert read(spark, url, "events", queue="images").count() == 3
    assert read(spark, url, "events", until="2020-01-01").count() == 0
    assert read(spark, url, "events", since="2020-01-01").count() == len(STORY)
    [[fifth]] = read(spark, url, "events").where("commit = 5").selectExpr("string(at)").collect()
    assert read(spark, url, "events", as_of=f"{fifth}Z").count() in (7, 8)  # within its microsecond
    assert read(spark, url, "events", since=f"{fifth}Z", tenant="nobody").count() == 0


def test_a_stream_takes_each_commit_once(spark: SparkSession, url: str, tmp_path: Path) -> None:
    stream = spark.readStream.format("penstock").options(url=url, max_events_per_batch=3).load()
    batches: list[list[int]] = []

    def keep(batch: Any, number: int) -> None:
        commits = batch.select("commit").distinct().orderBy("commit").collect()
        batches.append([row["commit"] for row in commits])

    writer = stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert batches == [[1, 2], [3], [4, 5, 6], [7, 8]]


def test_jobs_of_records_whose_first_events_were_vacuumed(
    spark: SparkSession, tmp_path: Path
) -> None:
    url, now = SQLITE.url(tmp_path), Services().clock.now()
    clock = FakeClock(now - WEEK_SECONDS - 10_000.0)

    async def live() -> None:
        async with penstock.open(url, services=Services(clock=clock)) as queue:
            await queue.enqueue("work", id="old")
            await queue.enqueue("work", id="archived")
            await queue.cancel("archived")
            await clock.advance(WEEK_SECONDS + 1)
            await queue.archive("archived")
            await queue.enqueue("work", id="gone", priority=-1)
            await queue.ack(await queue.claim(1))
            await clock.advance(7_200.0)
            await queue.enqueue("work", id="new")
            assert (await queue.vacuum()).floor == 4

    asyncio.run(live())
    found = read(spark, url, "jobs").select("id", "state").collect()
    assert {tuple(row) for row in found} == {
        ("old", "pending"),
        ("archived", "cancelled"),
        ("gone", "completed"),
        ("new", "pending"),
    }
    assert "only that of now can be told" in says(lambda: read(spark, url, "jobs", as_of=6).count())
    gap = says(lambda: read(spark, url, "jobs", as_of=3).count())
    assert "were vacuumed up to commit 4" in gap
    assert read(spark, url, "events", since=_iso(clock.now() - 60.0)).count() == 1


def _iso(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat()
