"""The tables are what is stored, on every backend that keeps events, while jobs come and leave."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.run import Plan, opened_pipeline
from tests.pipeline.backends import BACKENDS, LOG, SINGLE, Backend
from tests.pipeline.comparing import assert_tables_are_right, cursor
from tests.pipeline.histories import History

OTHERS = [backend for backend in BACKENDS if backend is not LOG]
JOBS = 1_500
INCREMENTS = 4
TWO_HOURS = 7_200.0

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]


@pytest.mark.parametrize("kind", OTHERS, ids=repr)
def test_increments_add_up_while_jobs_leave(
    spark: SparkSession, tmp_path: Path, kind: Backend
) -> None:
    history, warehouse = History(tmp_path / "queue", seed=5, kind=kind), tmp_path / "warehouse"
    for _ in range(INCREMENTS):
        history.grow(JOBS // INCREMENTS)
        with opened_pipeline(spark, Plan(history.url, str(warehouse))) as pipeline:
            pipeline.run_once()
            reached = cursor(warehouse)
            assert pipeline.run_once().tables == {}
        assert cursor(warehouse) == reached
        # By then what has completed is too old to stay.
        history.clock.jump(TWO_HOURS)
    recount = assert_tables_are_right(spark, history.folder, warehouse, kind=kind)
    assert sum(event["event"] == "completed" for event in recount.events) > JOBS / 2
    assert sum(event["event"] == "consumer_moved" for event in recount.events) >= INCREMENTS
    if kind is SINGLE:
        assert len(list(history.folder.glob("archive/*/*"))) >= INCREMENTS - 1


@pytest.mark.parametrize("kind", OTHERS, ids=repr)
def test_streaming_gives_the_same(spark: SparkSession, tmp_path: Path, kind: Backend) -> None:
    history, warehouse = History(tmp_path / "queue", seed=6, kind=kind), tmp_path / "warehouse"
    for _ in range(2):
        history.grow(300)
        history.clock.jump(TWO_HOURS)
        with opened_pipeline(spark, Plan(history.url, str(warehouse))) as pipeline:
            pipeline.run_stream(str(tmp_path / "offsets"), until_caught_up=True)
    assert_tables_are_right(spark, history.folder, warehouse, kind=kind)
