"""Tables of a queue as files."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.errors import InvalidInput, SparkFailed
from penstock.pipeline.operations.moving import export_table, flat, format_of, importable


@pytest.fixture
async def url(tmp_path: Path) -> str:
    url = f"{tmp_path.as_uri()}/queue?fsync=off"
    async with penstock.open(url) as queue:
        await queue.enqueue_many(
            penstock.NewJob("resize", {"id": n}, id=f"job-{n}") for n in range(5)
        )
        await queue.nack((await queue.claim(1))[0], "no, never", retry=False)
    return url


@pytest.mark.parametrize("format", ["parquet", "json", "csv"])
def test_jobs_are_written_as_files(
    spark: SparkSession, url: str, tmp_path: Path, format: str
) -> None:
    target = str(tmp_path / "out")
    assert export_table(spark, url, target, format=format) == 5
    reader = spark.read.format(format)
    if format == "csv":
        reader = reader.option("header", True).option("escape", '"')
    rows = {row["id"]: row for row in reader.load(target).collect()}
    assert {row["state"] for row in rows.values()} == {"pending", "failed"}
    assert rows["job-0"]["error"] == "no, never"
    assert rows["job-3"]["payload"] == '{"id":3}'


def test_a_condition_picks_rows_and_what_is_there_stays(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    target = str(tmp_path / "out")
    assert export_table(spark, url, target, table="events", where="event = 'failed'") == 1
    with pytest.raises(SparkFailed, match="already exists"):
        export_table(spark, url, target, table="events")
    assert export_table(spark, url, target, table="events", overwrite=True) == 7
    with pytest.raises(InvalidInput, match="nothing"):
        export_table(spark, url, str(tmp_path / "other"), where="nothing = 1")


def test_what_is_imported_are_jobs_that_are_still_to_be_run(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [("a", "t", "pending"), ("b", "t", "completed"), ("c", "t", "failed"), ("d", "t", None)],
        "id string, type string, state string",
    )
    kept = importable(rows, dead_letters=False)
    assert [tuple(row) for row in kept.collect()] == [("a", "t"), ("d", "t")]
    assert importable(rows, dead_letters=True).count() == 3
    with pytest.raises(InvalidInput, match="'type'"):
        importable(rows.drop("type"), dead_letters=False)


def test_nested_columns_are_json_in_flat_files(spark: SparkSession) -> None:
    rows = spark.sql("select 1 as n, array(named_struct('a', 2)) as nested")
    assert tuple(flat(rows).collect()[0]) == (1, '[{"a":2}]')


def test_a_format_is_known_by_the_name() -> None:
    named = {"jobs.jsonl": "json", "in/jobs.csv": "csv", "folder/": "parquet", "a.json/": "json"}
    assert {name: format_of(name) for name in named} == named
