"""Tables of a queue as files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import penstock
from penstock.cli.root import app
from penstock.errors import InvalidInput, SparkFailed
from penstock.pipeline.operations.moving import (
    export_table,
    flat,
    format_of,
    import_jobs,
    importable,
)
from tests.pipeline.backends import BACKENDS, SQLITE, Backend


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


def test_overwriting_destroys_neither_a_link_nor_what_is_no_folder(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    real, link, file, pipe = (tmp_path / name for name in ("real", "link", "file", "pipe"))
    real.mkdir()
    link.symlink_to(real)
    assert export_table(spark, url, str(link), overwrite=True) == 5
    assert link.readlink() == real
    assert list(real.glob("*.parquet"))
    file.write_text("somebody's own")
    os.mkfifo(pipe)
    for target in (str(file), str(pipe), pipe.as_uri()):
        with pytest.raises(InvalidInput, match="is a file, and a folder"):
            export_table(spark, url, target, overwrite=True)
    assert (file.read_text(), pipe.is_fifo()) == ("somebody's own", True)


@pytest.mark.parametrize("format", ["parquet", "json", "csv"])
@pytest.mark.parametrize("kind", BACKENDS, ids=repr)
def test_what_was_exported_can_be_imported_elsewhere(
    spark: SparkSession, url: str, tmp_path: Path, kind: Backend, format: str
) -> None:
    """By the commands, twice: what is there already is left alone."""
    files, there = str(tmp_path / f"jobs.{format}"), tmp_path / "there"
    there.mkdir()
    ran("export", url, files, "--format", format)
    for _ in range(2):
        assert ran("import", files, kind.url(there)) == {"jobs": 4}
    with penstock.open_sync(kind.url(there)) as queue:
        jobs = {job.id: job for job in queue.jobs()}
    assert sorted(jobs) == ["job-1", "job-2", "job-3", "job-4"]
    assert [jobs[id].payload for id in sorted(jobs)] == [{"id": n} for n in range(1, 5)]
    assert ran("import", files, kind.url(there), "--dead-letters") == {"jobs": 5}
    assert ran("export", kind.url(there), str(tmp_path / "back"))["rows"] == 5


def test_rows_without_an_id_need_a_queue_that_takes_imports(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.sql("select 'resize' as type")
    rows.write.json(str(tmp_path / "rows.json"))
    with pytest.raises(SparkFailed, match="give the rows a column 'id'"):
        import_jobs(spark, str(tmp_path / "rows.json"), SQLITE.url(tmp_path))
    bad = spark.sql("select 'resize' as type, 'a' as id, '{' as payload")
    bad.write.json(str(tmp_path / "bad.json"))
    with pytest.raises(SparkFailed, match="payload: it is no JSON"):
        import_jobs(spark, str(tmp_path / "bad.json"), SQLITE.url(tmp_path))


def ran(command: str, *arguments: str) -> dict[str, Any]:
    said = CliRunner().invoke(app, ["pipeline", command, *arguments, "--json"])
    assert said.exit_code == 0, said.output
    answer: dict[str, Any] = json.loads(said.stdout)
    return answer


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
