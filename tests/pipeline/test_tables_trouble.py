"""What goes wrong around the tables: races, lost answers, gaps, foreign places, new columns."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from penstock.engines.ledger.log.floor import raise_floor
from penstock.errors import ForeignWarehouse, Gap, InvalidInput, NoQueue, WarehouseBusy
from penstock.kernel.commands import DropConsumer
from penstock.kernel.events import SYSTEM_TENANT
from penstock.pipeline import schemas
from penstock.pipeline import tables as pipeline_tables
from penstock.pipeline.consumer import consumer_name
from penstock.pipeline.run import Plan, Summary, opened_pipeline
from penstock.pipeline.warehouse.delta import DeltaSnapshot
from penstock.pipeline.warehouse.files import DataFile
from penstock.pipeline.warehouse.parquet import ParquetSnapshot
from penstock.pipeline.warehouse.warehouse import Conflict
from penstock.runtime.services import Services
from penstock.stores.local import local_store
from tests.engines.stores import checkpointed
from tests.pipeline.backends import SQLITE, log_of
from tests.pipeline.comparing import ALL, assert_tables_are_right, cursor, stored
from tests.pipeline.histories import History
from tests.pipeline.recount import Recount

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]

FORMATS = ("delta", "parquet")
SNAPSHOTS: dict[str, Any] = {"delta": DeltaSnapshot, "parquet": ParquetSnapshot}


@pytest.fixture
def history(tmp_path: Path) -> History:
    history = History(tmp_path / "queue", seed=11)
    history.grow(300)
    return history


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


def run(
    spark: SparkSession,
    history: History,
    warehouse: Path,
    services: Services | None = None,
    **options: object,
) -> Summary:
    plan = Plan(history.url, str(warehouse), **options)  # type: ignore[arg-type]
    with opened_pipeline(spark, plan, services=services) as pipeline:
        return pipeline.run_once()


@pytest.mark.parametrize("format", FORMATS)
def test_of_two_pipelines_at_once_one_wins_each_commit(
    spark: SparkSession, history: History, warehouse: Path, format: str
) -> None:
    barriers = {f"committing {name}": threading.Barrier(2) for name in ALL}
    conflicts: list[str] = []

    def one_of_two() -> None:
        seen: set[str] = set()

        def meet(step: str) -> None:
            if step in seen:
                conflicts.append(step)
            elif step in barriers:
                seen.add(step)
                barriers[step].wait(60)

        plan = Plan(history.url, str(warehouse), format=format)
        with opened_pipeline(spark, plan, on_step=meet) as pipeline:
            target.wait(60)
            pipeline.run_once()

    target = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        for each in [pool.submit(one_of_two) for _ in range(2)]:
            each.result()
    run(spark, history, warehouse, format=format)
    assert_tables_are_right(spark, history.folder, warehouse)


@pytest.mark.parametrize("format", FORMATS)
def test_a_lost_answer_to_a_commit_doubles_nothing(
    spark: SparkSession,
    history: History,
    warehouse: Path,
    format: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commit = SNAPSHOTS[format].commit
    lost: list[int] = []

    def committed_without_an_answer(
        self: DeltaSnapshot, added: Sequence[DataFile], removed: Sequence[DataFile], cursor: int
    ) -> None:
        commit(self, added, removed, cursor)
        lost.append(cursor)
        raise Conflict("the answer was lost")

    monkeypatch.setattr(SNAPSHOTS[format], "commit", committed_without_an_answer)
    run(spark, history, warehouse, format=format)
    history.grow(100)
    run(spark, history, warehouse, format=format)
    assert len(lost) == 2 * len(ALL)
    assert_tables_are_right(spark, history.folder, warehouse)


def test_a_store_that_never_takes_a_commit_is_given_up(
    spark: SparkSession, history: History, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: object) -> None:
        raise Conflict("no")

    monkeypatch.setattr(DeltaSnapshot, "commit", refused)
    with pytest.raises(WarehouseBusy):
        run(spark, history, warehouse)


def test_a_consumer_behind_the_floor_is_told_of_the_gap(
    spark: SparkSession, history: History, warehouse: Path
) -> None:
    run(spark, history, warehouse)
    reached, before = cursor(warehouse), _contents(warehouse)
    history.grow(100)
    _raise_floor(history, reached + 3)
    with pytest.raises(Gap, match="rebuild"):
        run(spark, history, warehouse)
    assert _contents(warehouse) == before


def test_a_consumer_that_was_dropped_goes_on_where_the_log_is_still_whole(
    spark: SparkSession, history: History, warehouse: Path
) -> None:
    run(spark, history, warehouse)
    asyncio.run(_drop(history, consumer_name(local_store(str(warehouse)).name)))
    history.grow(100)
    run(spark, history, warehouse)
    recount = assert_tables_are_right(spark, history.folder, warehouse)
    assert "consumer_dropped" in {event["event"] for event in recount.events}


def test_what_was_vacuumed_before_the_first_run_is_not_missed(
    spark: SparkSession, history: History, warehouse: Path
) -> None:
    _raise_floor(history, 5)
    assert run(spark, history, warehouse).first_commit == 5
    first = min(stored(warehouse, "events").column("commit").to_pylist())
    assert first == 5


@pytest.mark.parametrize("format", FORMATS)
def test_a_table_gains_the_columns_that_events_gained(
    spark: SparkSession,
    history: History,
    warehouse: Path,
    format: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as earlier:
        fields = [field for field in schemas.EVENTS.fields if field.name != "meta"]
        columns = StructType(fields)
        earlier.setattr(pipeline_tables, "EVENTS", replace(pipeline_tables.EVENTS, columns=columns))
        run(spark, history, warehouse, format=format)
    reached = cursor(warehouse)
    history.grow(300)
    run(spark, history, warehouse, format=format)
    found = stored(warehouse, "events").select(["commit", "meta"]).to_pylist()
    old = [row["meta"] for row in found if row["commit"] <= reached]
    new = [row["meta"] for row in found if row["commit"] > reached]
    assert set(old) == {None}
    later = [event for event in Recount(log_of(history.folder)).events if event["commit"] > reached]
    assert sum(meta is not None for meta in new) == sum("meta" in event for event in later) > 0
    assert len(found) == sum(1 for _ in Recount(log_of(history.folder), cursor(warehouse)).events)


def test_a_folder_of_other_things_is_refused(
    spark: SparkSession, history: History, warehouse: Path
) -> None:
    warehouse.mkdir()
    (warehouse / "holiday.jpg").write_bytes(b"sun")
    with pytest.raises(ForeignWarehouse, match="not empty"):
        run(spark, history, warehouse)
    assert _contents(warehouse) == {"holiday.jpg": b"sun"}


def test_a_queue_is_no_warehouse(spark: SparkSession, history: History) -> None:
    with pytest.raises(ForeignWarehouse):
        run(spark, history, history.folder)


def test_the_warehouse_of_another_queue_is_refused(
    spark: SparkSession, history: History, warehouse: Path, tmp_path: Path
) -> None:
    run(spark, history, warehouse)
    before, other = _contents(warehouse), History(tmp_path / "other", seed=12)
    other.grow(10)
    with pytest.raises(ForeignWarehouse, match="another queue"):
        run(spark, other, warehouse)
    assert _contents(warehouse) == before


def test_tables_kept_in_another_way_are_refused(
    spark: SparkSession, history: History, warehouse: Path
) -> None:
    run(spark, history, warehouse)
    with pytest.raises(ForeignWarehouse, match="kept as delta"):
        run(spark, history, warehouse, format="parquet")


def test_a_table_of_another_shape_is_refused(
    spark: SparkSession, history: History, warehouse: Path
) -> None:
    run(spark, history, warehouse)
    _replace_table(warehouse / "slo", pa.table({"jobs": ["many"]}))
    before = DeltaTable(warehouse / "slo").version()
    with pytest.raises(ForeignWarehouse, match="slo"):
        run(spark, history, warehouse)
    assert DeltaTable(warehouse / "slo").version() == before


def test_no_queue_and_no_such_format_are_said(
    spark: SparkSession, tmp_path: Path, warehouse: Path
) -> None:
    with pytest.raises(NoQueue):
        run(spark, History(tmp_path / "nothing", seed=1), warehouse)
    with pytest.raises(InvalidInput, match="delta, parquet"):
        Plan("file:///queue", "file:///warehouse", format="orc")
    nowhere = Plan((tmp_path / "nothing").as_uri(), "memory://tables")
    with (
        pytest.raises(InvalidInput, match="a warehouse is a folder or in a bucket"),
        opened_pipeline(spark, nowhere),
    ):
        raise AssertionError("it was opened")


@pytest.mark.parametrize("format", FORMATS)
def test_compaction_and_retention_keep_the_rows_and_the_cursor(
    spark: SparkSession, tmp_path: Path, warehouse: Path, format: str
) -> None:
    # A database has no clock of its own, so that the pipeline can live on the same days.
    history = History(tmp_path / "queue", seed=11, kind=SQLITE)
    services = Services(clock=history.clock)
    for _ in range(10):
        history.grow(20)
        run(spark, history, warehouse, services, format=format)
    crowded = _data_files(warehouse, format)
    history.clock.jump(86_400.0)
    history.grow(100)
    run(spark, history, warehouse, services, format=format)
    assert _data_files(warehouse, format) < crowded
    assert_tables_are_right(spark, history.folder, warehouse, kind=SQLITE)
    history.clock.jump(86_400.0)
    history.grow(100)
    run(spark, history, warehouse, services, format=format, retain_days=1)
    newest = max(stored(warehouse, "events").column("date").to_pylist())
    since = date.fromordinal(newest.toordinal() - 1).isoformat()
    assert_tables_are_right(spark, history.folder, warehouse, since, kind=SQLITE)
    assert min(stored(warehouse, "events").column("date").to_pylist()).isoformat() == since


def _raise_floor(history: History, floor: int) -> None:
    async def raised() -> None:
        store = local_store(str(history.folder))
        # Where the log begins later, a checkpoint has what came before.
        await checkpointed(store, floor)
        await raise_floor(store, floor, Services())
        await store.close()

    asyncio.run(raised())


async def _drop(history: History, consumer: str) -> None:
    async with history.opened() as engine:
        await engine.execute(DropConsumer(SYSTEM_TENANT, consumer))


def _contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def _replace_table(path: Path, rows: pa.Table) -> None:
    delta = DeltaTable(path)
    configuration = delta.metadata().configuration
    for file in path.rglob("*"):
        if file.is_file():
            file.unlink()
    DeltaTable.create(path, rows.schema, configuration=configuration, raise_if_key_not_exists=False)
    write_deltalake(path, rows, mode="append")


def _data_files(warehouse: Path, format: str) -> int:
    if format == "delta":
        return len(DeltaTable(warehouse / "events").file_uris())
    return (warehouse / "events" / "manifest.json").read_text().count(".parquet")
