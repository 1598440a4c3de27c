"""A handler over the rows of a frame, by a task's rules."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

import penstock
from penstock.errors import InvalidInput
from penstock.pipeline.execution.rows import map_jobs

AT_ONCE = penstock.RetryPolicy(initial_seconds=0.001, max_seconds=0.001)


def outcomes(frame: Any) -> dict[int, Row]:
    return {row["id"]: row for row in frame.collect()}


def test_each_row_ends_as_a_job_would(spark: SparkSession) -> None:
    async def work(id: int, context: penstock.JobContext) -> object:
        if id == 1:
            raise penstock.Permanent("never")
        if id == 2 and context.attempt < 3:
            raise ValueError("again")
        if id == 3:
            await asyncio.Event().wait()
        if id == 4:
            return object()
        if id == 5 and context.attempt == 1:
            raise penstock.Snooze(seconds=0)
        if id == 6:
            raise KeyError("always")
        return {"id": id}

    frame = spark.range(7).selectExpr("cast(id as int) as id", "'x' as unused")
    done = map_jobs(frame, work, timeout_seconds=0.5, max_attempts=3, retry=AT_ONCE)
    assert done.columns[:2] == ["id", "unused"]
    rows = outcomes(done)
    said = {id: (row["state"], row["kind"], row["attempt"]) for id, row in rows.items()}
    assert said == {
        0: ("completed", None, 1),
        1: ("failed", "permanent", 1),
        2: ("completed", None, 3),
        3: ("failed", "timeout", 3),
        4: ("failed", "result", 1),
        5: ("completed", None, 2),
        6: ("failed", "error", 3),
    }
    assert (rows[0]["result"], rows[0]["error"]) == ('{"id":0}', None)
    assert rows[1]["error"] == "Permanent: never"
    assert rows[3]["seconds"] >= 0.5


def test_a_row_whose_handler_has_a_child_that_exits_fails_alone(spark: SparkSession) -> None:
    async def work(id: int) -> int:
        async def leave() -> None:
            raise SystemExit(3)

        if id == 1:
            await asyncio.gather(leave())
        return id

    frame = spark.range(3).selectExpr("cast(id as int) as id")
    rows = outcomes(map_jobs(frame, work, max_attempts=1))
    assert [rows[id]["kind"] for id in range(3)] == [None, "exit", None]


def test_plain_handlers_run_in_threads_and_may_take_the_whole_row(spark: SparkSession) -> None:
    frame = spark.range(4).withColumnRenamed("id", "number")

    def work(row: dict[str, Any]) -> list[Any]:
        return [row["number"], threading.current_thread() is threading.main_thread()]

    results = {row["result"] for row in map_jobs(frame, work, concurrency=2).collect()}
    assert results == {f"[{number},false]" for number in range(4)}


def test_arguments_are_checked_against_the_annotations(spark: SparkSession) -> None:
    frame = spark.sql("select 1 as id, 'wide' as width")

    async def work(width: int) -> int:
        return width

    (row,) = map_jobs(frame, work).collect()
    assert (row["state"], row["kind"], row["attempt"]) == ("failed", "arguments", 1)


def test_handlers_that_never_stop_end_the_task_and_not_the_patience(spark: SparkSession) -> None:
    def stuck(id: int) -> None:
        threading.Event().wait(20)

    done = map_jobs(spark.range(2), stuck, concurrency=1, timeout_seconds=0.1)
    with pytest.raises(PySparkException, match="ignore that their time is up"):
        done.collect()


def test_what_would_fail_on_every_row_fails_at_once(spark: SparkSession) -> None:
    frame = spark.range(1)
    with pytest.raises(InvalidInput, match="wants 'width'"):
        map_jobs(frame, lambda width: width)
    with pytest.raises(InvalidInput, match="'state'"):
        map_jobs(frame.selectExpr("id", "1 as state"), lambda row: row)
    with pytest.raises(InvalidInput, match="concurrency"):
        map_jobs(frame, lambda row: row, concurrency=0)
