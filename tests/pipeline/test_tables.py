"""The tables are what the log says: in one go, in increments, killed, streamed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.run import Plan, Summary, opened_pipeline
from tests.pipeline.comparing import assert_tables_are_right, cursor
from tests.pipeline.ending import Ended, ending_after
from tests.pipeline.histories import History

JOBS = int(os.environ.get("PENSTOCK_PROOF_JOBS", "6000"))
KILLS = int(os.environ.get("PENSTOCK_PROOF_KILLS", "2"))
INCREMENTS = 3
STEPS_OF_A_RUN = 36
RUN_SECONDS_MAX = 1_200 + JOBS / 50
TEST_SECONDS_MAX = RUN_SECONDS_MAX + KILLS * 120

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(TEST_SECONDS_MAX),
]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    history = History(tmp_path_factory.mktemp("history") / "queue", seed=1)
    history.grow(JOBS // INCREMENTS)
    return history


def run(
    spark: SparkSession,
    history: History,
    warehouse: Path,
    on_step: Callable[[str], None] = lambda step: None,
    **options: object,
) -> Summary:
    plan = Plan(history.url, str(warehouse), **options)  # type: ignore[arg-type]
    with opened_pipeline(spark, plan, on_step=on_step) as pipeline:
        return pipeline.run_once()


def test_increments_add_up(spark: SparkSession, history: History, tmp_path: Path) -> None:
    for number in range(INCREMENTS):
        if number:
            history.grow(JOBS // INCREMENTS)
        run(spark, history, tmp_path / "warehouse")
    assert_tables_are_right(spark, history.folder, tmp_path / "warehouse")


def test_one_go_gives_the_same(spark: SparkSession, history: History, tmp_path: Path) -> None:
    run(spark, history, tmp_path / "warehouse")
    assert_tables_are_right(spark, history.folder, tmp_path / "warehouse")


def test_parquet_folders_are_the_same_tables(
    spark: SparkSession, history: History, tmp_path: Path
) -> None:
    run(spark, history, tmp_path / "warehouse", format="parquet", commits_max=500)
    assert_tables_are_right(spark, history.folder, tmp_path / "warehouse")


def test_streaming_gives_the_same(spark: SparkSession, history: History, tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    batches: list[Summary] = []
    with opened_pipeline(spark, Plan(history.url, str(warehouse))) as pipeline:
        pipeline.run_stream(until_caught_up=True, on_batch=batches.append)
    assert batches
    assert_tables_are_right(spark, history.folder, warehouse)


def test_killed_anywhere_the_next_run_goes_on(
    spark: SparkSession, history: History, tmp_path: Path
) -> None:
    warehouse, luck = tmp_path / "warehouse", random.Random(JOBS)
    commits = history_commits(history) // 3 + 1
    for _ in range(KILLS):
        step = luck.randrange(1, STEPS_OF_A_RUN)
        killed = subprocess.run(
            [
                *(sys.executable, "-m", "tests.pipeline.killed_run"),
                *(history.url, str(warehouse), str(step), str(commits)),
            ],
            timeout=RUN_SECONDS_MAX,
            capture_output=True,
            text=True,
            check=False,
        )
        assert killed.returncode in (-signal.SIGKILL, 0), killed.stderr
    run(spark, history, warehouse)
    assert_tables_are_right(spark, history.folder, warehouse)


def test_a_run_may_end_between_any_two_steps(spark: SparkSession, tmp_path: Path) -> None:
    history, warehouse = History(tmp_path / "queue", seed=2), tmp_path / "warehouse"
    history.grow(600)
    for last_step in count(1):
        try:
            run(spark, history, warehouse, ending_after(last_step))
        except Ended:
            continue
        break
    assert last_step > 12
    assert_tables_are_right(spark, history.folder, warehouse)


def test_a_stream_that_forgot_its_last_batch_doubles_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    history, warehouse = History(tmp_path / "queue", seed=3), tmp_path / "warehouse"
    checkpoint = tmp_path / "checkpoint"
    for _ in range(2):
        history.grow(400)
        with opened_pipeline(spark, Plan(history.url, str(warehouse))) as pipeline:
            pipeline.run_stream(str(checkpoint), until_caught_up=True)
        newest = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        newest.unlink()
        # Hadoop keeps a checksum beside it, and minds one whose file is gone.
        newest.with_name(f".{newest.name}.crc").unlink()
    with opened_pipeline(spark, Plan(history.url, str(warehouse))) as pipeline:
        pipeline.run_stream(str(checkpoint), until_caught_up=True)
    assert_tables_are_right(spark, history.folder, warehouse)


def test_nothing_new_costs_nothing(spark: SparkSession, tmp_path: Path) -> None:
    history, warehouse = History(tmp_path / "queue", seed=4), tmp_path / "warehouse"
    history.grow(50)
    with opened_pipeline(spark, Plan(history.url, str(warehouse))) as pipeline:
        pipeline.run_once()
        before, reached = history_commits(history), cursor(warehouse)
        assert pipeline.run_once().tables == {}
        assert pipeline.run_once().tables == {}
    assert (history_commits(history), cursor(warehouse)) == (before, reached)


def history_commits(history: History) -> int:
    return len(list((history.folder / "log").iterdir()))
