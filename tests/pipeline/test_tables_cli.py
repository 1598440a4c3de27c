"""`penstock pipeline run` as a process of its own: on a folder, on real S3, and refused."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

import penstock
from penstock.cli.root import app
from penstock.pipeline.warehouse.delta import storage_options, table_uri
from penstock.pipeline.warehouse.place import opened_place
from tests.pipeline.comparing import ALL
from tests.pipeline.histories import History
from tests.servers import seaweed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RUN_SECONDS_MAX = 300


def pipeline_run(*arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "pipeline", "run", *arguments, "--json"],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_folder_becomes_tables_and_a_second_run_adds_little(tmp_path: Path) -> None:
    history, warehouse = History(tmp_path / "queue", seed=21), tmp_path / "warehouse"
    history.grow(100)
    first = pipeline_run(history.url, str(warehouse), "--slo", "wait=10s,run=1m,success=0.9")
    assert first["tables"]["jobs"] > 0
    assert set(first["tables"]) == set(ALL)
    [target] = {
        *DeltaTable(warehouse / "slo").to_pyarrow_table().column("success_target").to_pylist()
    }
    assert target == 0.9
    again = pipeline_run(history.url, str(warehouse), "--once")
    assert again["first_commit"] == first["last_commit"] + 1
    assert again["tables"]["events"] == again["last_commit"] - first["last_commit"]


def test_queue_and_warehouse_can_be_in_buckets(
    seaweed: seaweed.Seaweed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    where = f"?region=us-east-1&endpoint={seaweed.endpoint}"
    queue = f"s3://{seaweed.new_bucket()}/queue{where}"
    warehouse = f"s3://{seaweed.new_bucket()}/tables/mail{where}"
    asyncio.run(_work(queue))
    first = pipeline_run(queue, warehouse)
    assert (first["tables"]["jobs"], first["tables"]["attempts"]) == (10, 15)
    asyncio.run(_work(queue))
    pipeline_run(queue, warehouse)
    with opened_place(warehouse) as place:
        uri = table_uri(place, "throughput")
        rows = DeltaTable(uri, storage_options=storage_options(place)).to_pyarrow_table()
    assert sum(rows.column("completed").to_pylist()) == 20
    assert sum(rows.column("enqueued").to_pylist()) == 40


@pytest.mark.parametrize("mode", [["--every", "1s"], ["--stream"]], ids=" ".join)
def test_a_pipeline_that_goes_on_takes_what_comes_until_it_is_interrupted(
    mode: list[str], tmp_path: Path
) -> None:
    queue = (tmp_path / "queue").as_uri()
    asyncio.run(_work(queue))
    command = (sys.executable, "-m", "penstock", "pipeline", "run")
    with subprocess.Popen(
        [*command, queue, str(tmp_path / "warehouse"), *mode, "--json"],
        stdout=subprocess.PIPE,
        text=True,
    ) as goes_on:
        assert goes_on.stdout is not None
        seen = 0
        for line in goes_on.stdout:
            before, seen = seen, seen + json.loads(line)["tables"].get("jobs", 0)
            if before < 10 <= seen:
                asyncio.run(_work(queue))
            if seen == 20:
                goes_on.send_signal(signal.SIGINT)
                break
        assert goes_on.wait(RUN_SECONDS_MAX) == 130
    assert seen == 20


def test_workers_run_on_spark_from_a_shell(tmp_path: Path) -> None:
    queue = (tmp_path / "queue").as_uri()
    with penstock.open_sync(queue) as opened:
        opened.enqueue_many([penstock.NewJob("square", {"number": n}) for n in range(20)])
    command = (sys.executable, "-m", "penstock", "worker", "tests.pipeline.spark_tasks:app")
    done = subprocess.run(
        [*command, "--url", queue, "--on-spark", "--master", "local[2]", "--tasks", "2",
         "--burst", "--json"],
        capture_output=True, text=True, timeout=RUN_SECONDS_MAX, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["completed"] == 20


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["queue", "tables", "--every", "soon"], "a number and a unit"),
        (["queue", "tables", "--retain", "90"], "a number and a unit"),
        (["queue", "tables", "--slo", "speed=9"], "wait=60s"),
        (["queue", "tables", "--once", "--stream"], "take one"),
        (["queue", "tables", "--format", "csv"], "delta, parquet"),
    ],
)
def test_what_can_not_be_right_is_refused_before_spark_starts(
    arguments: list[str], words: str
) -> None:
    result = CliRunner().invoke(app, ["pipeline", "run", *arguments], env=dict(os.environ))
    assert result.exit_code == 2
    assert words in result.stderr


async def _work(url: str) -> None:
    """Twenty jobs, of which ten are done and five are tried again."""
    async with penstock.open(url) as queue:
        await queue.enqueue_many([penstock.NewJob("mail", {"to": n}) for n in range(20)])
        jobs = await queue.claim(15, worker="w1")
        await queue.ack(jobs[:10])
        await queue.nack(jobs[10:], error="no route to 10.0.0.1", retry=True)


ACCESS_KEY, SECRET_KEY = seaweed.ACCESS_KEY, seaweed.SECRET_KEY
