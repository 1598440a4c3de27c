"""Writes that are killed or fail in the middle: none or all of their jobs, and each once."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import penstock
from tests.servers.seaweed import ACCESS_KEY, SECRET_KEY, Seaweed

JOBS = 50_000
RUN_SECONDS_MAX = 600

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(2 * RUN_SECONDS_MAX),
]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"{tmp_path.as_uri()}/queue?fsync=off"


def write(url: str, place: str, *columns: str, master: str = "local[2]", jobs: int = JOBS) -> int:
    """Runs into trouble at a place; answers how the process ended."""
    program = (sys.executable, "-m", "tests.pipeline.troubled_write")
    ran = subprocess.run(
        [*program, master, url, "today", str(jobs), place, *columns],
        timeout=RUN_SECONDS_MAX,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode in (-signal.SIGKILL, 0), ran.stderr
    return ran.returncode


def write_again(spark: SparkSession, url: str, *columns: str, jobs: int = JOBS) -> None:
    """The same run, without trouble."""
    frame = spark.range(jobs).select(
        sf.lit("double").alias("type"),
        sf.struct(sf.col("id").alias("n")).alias("payload"),
        *(sf.col("id").cast("string") for _ in columns),
    )
    frame.write.format("penstock").options(url=url, run="today").mode("append").save()


def numbers(url: str) -> Counter[int]:
    async def read() -> Counter[int]:
        async with penstock.open(url) as queue:
            return Counter([job.payload["n"] async for job in queue.jobs()])

    return asyncio.run(read())


def each_once(jobs: int = JOBS) -> Counter[int]:
    return Counter(range(jobs))


@pytest.mark.parametrize(
    ("place", "is_published"),
    [("task", False), ("start", False), ("before:1", False), ("after:1", True), ("end", True)],
)
def test_a_killed_driver_leaves_none_or_all_and_the_same_run_makes_it_all(
    spark: SparkSession, url: str, place: str, is_published: bool
) -> None:
    assert write(url, place) == -signal.SIGKILL
    assert numbers(url) == (each_once() if is_published else Counter())
    write_again(spark, url)
    assert numbers(url) == each_once()


def test_rows_with_ids_are_gone_on_with_where_the_driver_was_killed(
    spark: SparkSession, url: str
) -> None:
    for place in ("before:3", "after:2"):
        assert write(url, place, "id") == -signal.SIGKILL
    some = numbers(url)
    assert 0 < len(some) < JOBS
    assert set(some.values()) == {1}
    write_again(spark, url, "id")
    assert numbers(url) == each_once()


def test_tasks_that_fail_after_they_wrote_are_tried_again_and_nothing_doubles(url: str) -> None:
    assert write(url, "fail", master="local[2,3]") == 0
    assert numbers(url) == each_once()


def test_a_bucket_is_filled_like_a_folder(
    spark: SparkSession, seaweed: Seaweed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    url = f"s3://{seaweed.new_bucket()}/queue?region=us-east-1&endpoint={seaweed.endpoint}"
    for _ in range(2):
        write_again(spark, url, jobs=2_000)
    assert numbers(url) == each_once(2_000)
