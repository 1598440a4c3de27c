"""The tables are what is stored, on every backend that keeps events, while jobs come and leave."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.errors import Gap
from penstock.pipeline.report.reading import read_figures
from penstock.pipeline.run import Pipeline, Plan, opened_pipeline
from tests.pipeline.backends import SINGLE, SQLITE, TASKS, Backend
from tests.pipeline.comparing import assert_tables_are_right, cursor, stored
from tests.pipeline.databases import ALL_BUT_LOG, backend_of
from tests.pipeline.ending import Ended, ending_after
from tests.pipeline.histories import History
from tests.pipeline.latecomers import Latecomer

JOBS = 1_500
INCREMENTS = 3
STEPS_OF_A_RUN = 36
TWO_HOURS = 7_200.0
TEN_DAYS = 864_000.0
TEN_YEARS = 365 * TEN_DAYS

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]


@pytest.fixture(params=ALL_BUT_LOG)
def kind(request: pytest.FixtureRequest) -> Backend:
    return backend_of(request, request.param)


def test_increments_add_up_while_jobs_leave_and_runs_are_killed(
    spark: SparkSession, tmp_path: Path, kind: Backend
) -> None:
    history, warehouse = History(tmp_path / "queue", seed=5, kind=kind), tmp_path / "warehouse"
    plan, luck = Plan(history.url, str(warehouse)), random.Random(kind.name)
    for _ in range(INCREMENTS):
        history.grow(JOBS // INCREMENTS)
        on_step = ending_after(luck.randrange(1, STEPS_OF_A_RUN))
        with suppress(Ended), opened_pipeline(spark, plan, on_step=on_step) as pipeline:
            pipeline.run_once()
        with opened_pipeline(spark, plan) as pipeline:
            _run_until_nothing_is_new(pipeline, warehouse)
        # By then what has completed is too old to stay.
        history.clock.jump(TWO_HOURS)
    recount = assert_tables_are_right(spark, history.folder, warehouse, kind=kind)
    assert sum(event["event"] == "completed" for event in recount.events) > JOBS / 3
    assert sum(event["event"] == "consumer_moved" for event in recount.events) >= INCREMENTS
    figures = read_figures(spark, str(warehouse))
    assert figures.total.completed == sum(e["event"] == "completed" for e in recount.events)
    assert figures.cost is None
    if kind is SINGLE:
        assert len(list(history.folder.glob("archive/*/*"))) >= INCREMENTS - 1


def test_vacuum_waits_for_the_pipeline_and_a_gap_is_said(
    spark: SparkSession, tmp_path: Path
) -> None:
    history, warehouse = History(tmp_path / "queue", seed=7, kind=SQLITE), tmp_path / "warehouse"
    plan = Plan(history.url, str(warehouse))
    history.grow(200)
    with opened_pipeline(spark, plan) as pipeline:
        pipeline.run_once()
    reached = cursor(warehouse)
    history.grow(200)
    history.clock.jump(TEN_DAYS)
    assert asyncio.run(_vacuumed(history)) == reached
    with opened_pipeline(spark, plan) as pipeline:
        assert pipeline.run_once().first_commit == reached + 1
    history.grow(200)
    # Silent for so long, it is taken for dead, however far the queue's time is ahead by now.
    history.clock.jump(TEN_YEARS)
    assert asyncio.run(_vacuumed(history)) > cursor(warehouse) + 1
    with pytest.raises(Gap, match="rebuild"), opened_pipeline(spark, plan):
        raise AssertionError("it was opened")


def _run_until_nothing_is_new(pipeline: Pipeline, warehouse: Path) -> None:
    """Real time passes in a run, and leases of the story may run out meanwhile, not for ever."""
    pipeline.run_once()
    for _ in range(10):
        reached = cursor(warehouse)
        if pipeline.run_once().tables == {}:
            assert cursor(warehouse) == reached
            return
    raise AssertionError("there was always something new")


async def _vacuumed(history: History) -> int:
    """Where events begin then."""
    async with history.opened() as engine:
        return (await engine.vacuum()).floor


def test_streaming_and_one_go_give_the_same(
    spark: SparkSession, tmp_path: Path, kind: Backend
) -> None:
    history, warehouse = History(tmp_path / "queue", seed=6, kind=kind), tmp_path / "warehouse"
    for _ in range(2):
        history.grow(300)
        history.clock.jump(TWO_HOURS)
        with opened_pipeline(spark, Plan(history.url, str(warehouse))) as pipeline:
            pipeline.run_stream(str(tmp_path / "offsets"), until_caught_up=True)
    assert_tables_are_right(spark, history.folder, warehouse, kind=kind)
    another = tmp_path / "another"
    with opened_pipeline(spark, Plan(history.url, str(another), format="parquet")) as pipeline:
        pipeline.run_once()
    assert_tables_are_right(spark, history.folder, another, kind=kind)


def test_an_event_that_is_stored_late_is_in_the_tables_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    late, warehouse = Latecomer(tmp_path / "queue"), tmp_path / "warehouse"
    plan = Plan(late.url, str(warehouse))
    asyncio.run(late.begin())
    asyncio.run(late.enqueue("in time"))
    with opened_pipeline(spark, plan) as pipeline:
        pipeline.run_once()
        assert ids_in(warehouse) == ["in time"]
        late.arrive()
        pipeline.run_once()
        assert pipeline.run_once().tables == {}
    assert ids_in(warehouse) == ["in time", "late"]
    assert_tables_are_right(spark, late.folder, warehouse, kind=TASKS)


def ids_in(warehouse: Path) -> list[str]:
    return sorted(filter(None, stored(warehouse, "events").column("id").to_pylist()))
