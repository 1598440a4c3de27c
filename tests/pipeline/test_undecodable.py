"""A queue with jobs that nobody can decode is read as tables like any other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.pipeline.run import Plan, opened_pipeline
from penstock.testing.conformance.backend.payloads import PickleCodec
from tests.cli.running import got
from tests.pipeline.comparing import stored
from tests.pipeline.queues import read, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGE = "x" * 300_000
TRACEBACK = "in line 7\n" * 300
ENDS = [
    ("broken", "failed", "error", TRACEBACK),
    ("odd", "failed", "undecodable", None),
    ("gone", "failed", "undecodable", None),
]


def write_jobs_that_fail(folder: Path, layout: str) -> str:
    """One fails with a traceback; of two others nobody can read the payload."""
    url = f"{folder.as_uri()}?layout={layout}"
    with penstock.open_sync(url, codecs=[PickleCodec()], offload=True) as queue:
        queue.enqueue("work", id="broken", max_attempts=1)
        queue.nack(queue.claim(), "boom", traceback=TRACEBACK)
        queue.enqueue("work", {1}, id="odd", codec="pickle", max_attempts=1)
        queue.enqueue("work", LARGE, id="gone", max_attempts=1)
        key = got(queue, "gone").payload_key
        assert key is not None
        (folder / key).unlink()
    with penstock.open_sync(url) as queue:
        assert queue.claim(2) == []
    return url


@pytest.mark.slow
def test_the_tables_have_jobs_that_nobody_can_decode_and_tracebacks(
    spark: SparkSession, tmp_path: Path
) -> None:
    url, warehouse = write_jobs_that_fail(tmp_path / "log", "log"), tmp_path / "warehouse"
    with opened_pipeline(spark, Plan(url, str(warehouse))) as pipeline:
        pipeline.run_once()
    attempts = stored(warehouse, "attempts").select(["id", "outcome", "kind", "traceback"])
    assert sorted(tuple(row.values()) for row in attempts.to_pylist()) == sorted(ENDS)
    examples = stored(warehouse, "errors").select(["kind", "example_traceback"]).to_pylist()
    assert {"kind": "error", "example_traceback": TRACEBACK} in examples
    payloads = rows(read(spark, url, "events").where("event = 'enqueued'"), "id", "codec")
    assert payloads == [("broken", "json"), ("odd", "pickle"), ("gone", "json")]
    single = read(spark, write_jobs_that_fail(tmp_path / "single", "single"), "attempts")
    assert sorted(rows(single, "id", "outcome", "kind", "traceback")) == sorted(ENDS)
