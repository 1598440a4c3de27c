"""What a read says when it can't be right: one sentence, and nothing is skipped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.engines.ledger.log.floor import raise_floor
from penstock.engines.ledger.names import log_key
from penstock.errors import InvalidOption, PenstockError
from penstock.pipeline.source.options import parse_options
from penstock.runtime.services import Services
from penstock.stores.local import LocalStore
from tests.engines.stores import checkpointed
from tests.pipeline.queues import COMMITS, read, write_lives

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    asyncio.run(write_lives((tmp_path / "queue").as_uri()))
    return tmp_path / "queue"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"table": "tasks"}, "the tables are events, jobs, attempts, commits"),
        ({"tabel": "jobs"}, "known options are as_of, consumer, from_commit"),
        ({"from_commit": "x"}, "a commit is a whole number"),
        ({"to_commit": "0"}, "a commit is a whole number"),
        ({"since": "yesterday"}, "a time is written 2026-"),
        ({"as_of": "soon"}, "a time is written 2026-"),
        ({"from_commit": "5", "to_commit": "4"}, "before from_commit=5"),
        ({"since": "2026-01-02", "until": "2026-01-01"}, "before since"),
        ({"as_of": "5", "to_commit": "4"}, "as_of says the same"),
        ({"partitions": "0"}, "1 or more"),
        ({"max_events_per_batch": "-1"}, "1 or more"),
        ({"max_commits_per_batch": "1", "max_events_per_batch": "1"}, "take one"),
        ({"pushdown": "maybe"}, "on or off"),
        ({"url": "memory://"}, "another's memory"),
        ({"url": "queue"}, "write file:///"),
        ({"url": "ftp://x"}, "scheme ftp:// is not known"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(PenstockError, match=words):
        parse_options({"url": "file:///queue", **options})


def test_all_options_are_read() -> None:
    options = parse_options(
        {"path": "s3://bucket/queue", "as_of": "7", "tenant": "acme", "consumer": "c"}
    )
    assert (options.address.scheme, options.as_of, options.table) == ("s3", 7, "events")
    assert parse_options({"path": "/queue", "as_of": "1970-01-02"}).as_of == 86_400.0


def test_a_refusal_names_the_option() -> None:
    with pytest.raises(InvalidOption) as caught:
        parse_options({"url": "/queue", "partitions": "many"})
    assert (caught.value.option, caught.value.value) == ("partitions", "many")


def says(act: Callable[[], Any]) -> str:
    """What Spark tells of the error that a source raised."""
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as caught:
        act()
    return str(caught.value)


def test_spark_passes_the_sentence_on(spark: SparkSession, folder: Path) -> None:
    assert "the tables are" in says(lambda: read(spark, folder.as_uri(), "tasks"))


def test_a_place_without_a_queue_stays_without(spark: SparkSession, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert "there is no queue" in says(lambda: read(spark, nowhere.as_uri(), "events").count())
    assert not (nowhere / "penstock.json").exists()


def test_a_column_that_is_not_there_or_of_another_type_is_refused(
    spark: SparkSession, folder: Path
) -> None:
    reader = spark.read.format("penstock")
    unknown = says(lambda: reader.schema("nonsense string").load(folder.as_uri()).count())
    assert "the table events has the columns position, commit" in unknown
    converted = says(lambda: reader.schema("life string").load(folder.as_uri()).count())
    assert "this column is of type bigint" in converted


def test_a_commit_that_was_never_made_is_refused(spark: SparkSession, folder: Path) -> None:
    words = says(lambda: read(spark, folder.as_uri(), "jobs", as_of=99).count())
    assert f"the newest commit is {COMMITS}" in words


def test_a_state_has_no_beginning(spark: SparkSession, folder: Path) -> None:
    words = says(lambda: read(spark, folder.as_uri(), "jobs", from_commit=2).count())
    assert "say when with as_of" in words


def test_a_read_below_the_floor_is_a_gap(spark: SparkSession, folder: Path) -> None:
    asyncio.run(raise_floor(LocalStore(folder), 4, Services()))
    url = folder.as_uri()
    for options in ({"from_commit": 3}, {"to_commit": 3}, {"since": "2020-01-01"}):
        words = says(lambda options=options: read(spark, url, "events", **options).count())  # type: ignore[misc]
        assert "were vacuumed up to commit 4" in words
    # From the beginning is from where it now begins, whatever a late writer left below.
    assert read(spark, url, "events").count() == 5


def test_a_log_object_that_was_deleted_is_named(spark: SparkSession, folder: Path) -> None:
    gone = sorted((folder / "log").iterdir())[3]
    frame = read(spark, folder.as_uri(), "events")
    gone.unlink()
    words = says(frame.count)
    assert f"log/{gone.name}: it is gone, although later commits build on it" in words


def test_a_log_object_that_was_cut_off_is_named(spark: SparkSession, folder: Path) -> None:
    cut = sorted((folder / "log").iterdir())[3]
    cut.write_bytes(cut.read_bytes()[:-20])
    words = says(lambda: read(spark, folder.as_uri(), "events").count())
    assert f"log/{cut.name}" in words
    assert "truncated or altered" in words


def test_a_state_is_told_from_a_checkpoint_on_and_otherwise_it_is_said_from_when(
    spark: SparkSession, folder: Path
) -> None:
    async def vacuumed() -> None:
        store = LocalStore(folder)
        await checkpointed(store, 6)
        await raise_floor(store, 4, Services())
        for commit in (1, 2, 3):
            await store.delete(log_key(commit))

    asyncio.run(vacuumed())
    url = folder.as_uri()
    states = {6: "pending", 7: "cancelled"}
    for commit, state in states.items():
        jobs = read(spark, url, "jobs", as_of=commit).where("id = 'c'")
        assert [row["state"] for row in jobs.collect()] == [state]
    early = says(lambda: read(spark, url, "jobs", as_of=5).count())
    assert "the oldest state that can still be told is that of commit 6" in early
    gone = says(lambda: read(spark, url, "jobs", as_of=3).count())
    assert "were vacuumed up to commit 4" in gone
