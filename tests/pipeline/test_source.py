"""A queue read as tables, in one go."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec import json

import penstock
from tests.pipeline.queues import COMMITS, read, rows, write_lives
from tests.servers.seaweed import ACCESS_KEY, SECRET_KEY, Seaweed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STORY = [
    (1, "enqueued", "a"),
    (2, "enqueued", "b"),
    (2, "enqueued", "c"),
    (3, "claimed", "a"),
    (3, "claimed", "b"),
    (3, "claimed", "c"),
    (4, "completed", "a"),
    (5, "failed", "b"),
    (6, "retried", "c"),
    (7, "cancelled", "c"),
    (8, "replayed", "b"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lives") / "queue"
    asyncio.run(write_lives(folder.as_uri()))
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> str:
    return folder.as_uri()


def times(folder: Path) -> list[float]:
    """When each commit was."""
    return [
        json.decode(path.read_bytes().partition(b"\n")[0])["at"]
        for path in sorted((folder / "log").iterdir())
    ]


def iso(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat()


@pytest.mark.parametrize("partitions", [1, 3, 20])
def test_events_are_what_the_log_says(spark: SparkSession, url: str, partitions: int) -> None:
    frame = read(spark, url, "events", partitions=partitions)
    assert rows(frame, "commit", "event", "id") == STORY
    assert frame.rdd.getNumPartitions() == min(partitions, COMMITS)


def test_events_have_the_fields_and_the_defaults_of_their_kind(
    spark: SparkSession, url: str
) -> None:
    frame = read(spark, url, "events")
    columns = ("event", "queue", "payload", "meta", "priority", "codec", "attempt", "result")
    assert rows(frame.where("id = 'a'"), *columns) == [
        ("enqueued", "images", '{"id":7}', '{"by":"x"}', 0, "json", None, None),
        ("claimed", "images", None, None, None, None, 1, None),
        ("completed", "images", None, '{"by":"x"}', 0, None, 1, '{"ok":true}'),
    ]


def test_times_are_those_of_the_log_to_the_microsecond(
    spark: SparkSession, folder: Path, url: str
) -> None:
    frame = read(spark, url, "events").where("id = 'a'")
    found = rows(frame.selectExpr("position", "unix_micros(at) as micros"), "micros")
    expected = times(folder)
    assert found == [(round(expected[commit - 1] * 1_000_000),) for commit in (1, 3, 4)]


def test_attempts_are_those_that_ran(spark: SparkSession, url: str) -> None:
    frame = read(spark, url, "attempts")
    columns = ("id", "attempt", "outcome", "kind", "error", "worker")
    assert rows(frame, *columns) == [
        ("a", 1, "completed", None, None, "w1"),
        ("b", 1, "failed", "error", "boom", "w1"),
        ("c", 1, "retried", "error", "later", "w1"),
    ]
    assert frame.where("wait_seconds < 0 or run_seconds <= 0").count() == 0
    exact = "abs(unix_micros(ended_at) - unix_micros(started_at) - run_seconds * 1e6) < 2"
    assert frame.where(exact).count() == 3


def test_commits_say_what_each_weighed(spark: SparkSession, folder: Path, url: str) -> None:
    found = read(spark, url, "commits").orderBy("commit").collect()
    sizes = [path.stat().st_size for path in sorted((folder / "log").iterdir())]
    assert [(row.commit, row.size_bytes) for row in found] == [*enumerate(sizes, start=1)]
    assert [row.events for row in found] == [1, 2, 3, 1, 1, 1, 1, 1]


def test_a_time_is_as_good_as_a_commit(spark: SparkSession, folder: Path, url: str) -> None:
    fifth = iso(times(folder)[4])
    assert read(spark, url, "events", as_of=fifth).count() == 8
    assert read(spark, url, "events", until=fifth).count() == 7
    assert read(spark, url, "events", since=fifth).count() == 4
    jobs = read(spark, url, "jobs", as_of=fifth)
    assert ("b", "failed") in [tuple(row) for row in jobs.select("id", "state").collect()]


def test_a_read_is_narrowed_by_its_options(spark: SparkSession, url: str) -> None:
    assert read(spark, url, "events", from_commit=3, to_commit=4).count() == 4
    assert read(spark, url, "events", from_commit=COMMITS + 1).count() == 0
    assert read(spark, url, "events", queue="images").count() == 3
    assert read(spark, url, "events", tenant="nobody").count() == 0
    assert read(spark, url, "jobs", queue="images").count() == 1


def test_a_schema_picks_the_columns(spark: SparkSession, url: str) -> None:
    picked = spark.read.format("penstock").schema("id string, commit bigint").load(url)
    assert picked.columns == ["id", "commit"]
    assert {tuple(row) for row in picked.collect()} == {(id, commit) for commit, _, id in STORY}


def test_filters_reach_the_source_where_that_is_switched_on(spark: SparkSession, url: str) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = read(spark, url, "events", pushdown="on")
        later = frame.where("commit > 3 and commit <= 5 and queue = 'images'")
        assert rows(later, "commit", "event", "id") == [(4, "completed", "a")]
        assert frame.where("at < timestamp '2020-01-01'").count() == 0
        assert frame.where("at >= timestamp '2020-01-01'").count() == len(STORY)
        assert frame.where("commit > 100").count() == 0
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_sql_reads_a_queue_too(spark: SparkSession, url: str) -> None:
    spark.sql(f"create temporary view lives using penstock options (url '{url}', table 'jobs')")
    assert spark.sql("select count(*) from lives where state = 'pending'").first() == (1,)
    spark.catalog.dropTempView("lives")


def test_a_job_that_left_is_in_the_log_still(spark: SparkSession, tmp_path: Path) -> None:
    url = (tmp_path / "queue").as_uri()

    async def live_and_leave() -> None:
        async with penstock.open(url, result_ttl_seconds=0) as queue:
            await queue.enqueue("send", id="gone", max_attempts=7)
            [job] = await queue.claim()
            await queue.ack(job, result=1)
            await queue.enqueue("send", id="here")
            assert await queue.get("gone") is None

    asyncio.run(live_and_leave())
    frame = read(spark, url, "jobs")
    assert rows(frame, "id", "state", "result", "max_attempts") == [
        ("gone", "completed", "1", 7),
        ("here", "pending", None, 4),
    ]


def test_a_bucket_is_read_like_a_folder(
    spark: SparkSession, seaweed: Seaweed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    bucket = seaweed.new_bucket()
    url = f"s3://{bucket}/queue?region=us-east-1&endpoint={seaweed.endpoint}"
    asyncio.run(write_lives(url))
    assert rows(read(spark, url, "events"), "commit", "event", "id") == STORY
    assert read(spark, url, "jobs").count() == 3
