"""Imported jobs in the tables of the source: those that were admitted, and those that wait."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from tests.pipeline.queues import read

JOBS = 2_500
CLAIMED = 3
IMPORT_COMMIT = 1


@pytest.fixture(params=["log", "single"])
def url(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A run of many jobs, of which a claim has admitted the first chunk."""
    url = f"{tmp_path.as_uri()}/queue?fsync=off&layout={request.param}"

    async def fill() -> None:
        async with penstock.open(url) as queue:
            new = [penstock.NewJob("index", {"n": n}, queue="bulk") for n in range(JOBS)]
            await queue.import_jobs("today", new)
            assert len(await queue.claim(CLAIMED)) == CLAIMED
            await queue.cancel(f"today.{JOBS - 1}")

    asyncio.run(fill())
    return url


def test_all_jobs_of_a_run_are_there_admitted_or_not(spark: SparkSession, url: str) -> None:
    jobs = read(spark, url, "jobs")
    states = {row["state"]: row["count"] for row in jobs.groupBy("state").count().collect()}
    assert states == {"running": CLAIMED, "cancelled": 1, "pending": JOBS - CLAIMED - 1}
    waiting = jobs.where("state = 'pending'").select("id", "payload", "queue").collect()
    assert {row["id"]: json.loads(row["payload"])["n"] for row in waiting} == {
        f"today.{n}": n for n in range(CLAIMED, JOBS - 1)
    }
    assert read(spark, url, "jobs", queue="bulk").count() == JOBS
    assert read(spark, url, "jobs", queue="mail").count() == 0


def test_as_of_its_import_a_run_waits_as_a_whole(spark: SparkSession, url: str) -> None:
    then = read(spark, url, "jobs", as_of=IMPORT_COMMIT)
    assert [tuple(row) for row in then.groupBy("state").count().collect()] == [("pending", JOBS)]


@pytest.mark.parametrize("url", ["log"], indirect=True)
def test_events_say_what_was_imported_and_where_jobs_come_from(
    spark: SparkSession, url: str
) -> None:
    events = read(spark, url, "events")
    (imported,) = events.where("event = 'imported'").collect()
    assert (imported["commit"], imported["run"], imported["rows"]) == (IMPORT_COMMIT, "today", JOBS)
    assert json.loads(imported["objects"])[0]["segments"][0]["queue"] == "bulk"
    admitted = events.where("event = 'admitted'").orderBy("position").collect()
    rows = [*range(1_000), JOBS - 1]
    assert [(row["row"], row["id"]) for row in admitted] == [(n, f"today.{n}") for n in rows]
    assert {(row["run"], row["source"], row["enqueued_at"]) for row in admitted} == {
        ("today", imported["position"], imported["at"])
    }
