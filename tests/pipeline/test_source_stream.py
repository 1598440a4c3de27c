"""A queue read as a stream: each commit once, in batches of the size that was asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.engines.ledger.log.reader import LogReader
from penstock.engines.ledger.log.startup import load
from penstock.runtime.services import Services
from penstock.stores.local import LocalStore
from tests.pipeline.queues import COMMITS, read, write_lives

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Batches = list[list[tuple[Any, ...]]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    asyncio.run(write_lives((tmp_path / "queue").as_uri()))
    return tmp_path / "queue"


def taken(spark: SparkSession, folder: Path, **options: Any) -> Batches:
    """All that there is now, batch by batch; the next call goes on from there."""
    url = options.pop("url", folder.as_uri())
    stream = spark.readStream.format("penstock").options(url=url, **options).load()
    batches: Batches = []

    def keep(batch: DataFrame, number: int) -> None:
        found = batch.orderBy("position").select("position", "commit").collect()
        batches.append([tuple(row) for row in found])

    query = (
        stream.writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(folder.parent / "offsets"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return batches


def commits(batches: Batches) -> list[list[int]]:
    return [sorted({commit for _, commit in batch}) for batch in batches]


def test_a_stream_takes_everything_once_and_then_what_is_new(
    spark: SparkSession, folder: Path
) -> None:
    assert commits(taken(spark, folder)) == [list(range(1, COMMITS + 1))]
    asyncio.run(enqueue(folder.as_uri()))
    assert commits(taken(spark, folder)) == [[COMMITS + 1]]


def test_batches_have_at_most_so_many_commits(spark: SparkSession, folder: Path) -> None:
    assert commits(taken(spark, folder, max_commits_per_batch=3)) == [
        [1, 2, 3],
        [4, 5, 6],
        [7, 8],
    ]


def test_batches_have_at_most_so_many_events(spark: SparkSession, folder: Path) -> None:
    # The third commit has three events: alone it is too many, and goes alone.
    found = taken(spark, folder, max_events_per_batch=2)
    assert commits(found) == [[1], [2], [3], [4, 5], [6, 7], [8]]


def test_layout_single_streams_as_well(spark: SparkSession, tmp_path: Path) -> None:
    url = f"{(tmp_path / 'queue').as_uri()}?layout=single"
    asyncio.run(write_lives(url))
    found = taken(spark, tmp_path / "queue", url=url, max_events_per_batch=3)
    assert commits(found) == [[1, 2], [3], [4, 5, 6], [7, 8]]


def test_a_stream_of_jobs_is_one_of_endings(spark: SparkSession, folder: Path) -> None:
    assert commits(taken(spark, folder, table="jobs")) == [[4, 5, 7]]


def test_a_stream_may_begin_later(spark: SparkSession, folder: Path) -> None:
    assert commits(taken(spark, folder, from_commit=7)) == [[7, 8]]


def test_a_stream_has_no_end(spark: SparkSession, folder: Path) -> None:
    with pytest.raises(Exception, match="not of a stream"):
        taken(spark, folder, as_of=3)


def test_a_consumer_is_registered_before_the_first_read(spark: SparkSession, folder: Path) -> None:
    frame = read(spark, folder.as_uri(), "events", from_commit=3, consumer="tables")
    assert frame.where("commit = 3").count() == 3
    reached, _ = asyncio.run(consumers(folder))["tables"]
    assert reached // 1_000_000 == 2


async def enqueue(url: str) -> None:
    async with penstock.open(url) as queue:
        await queue.enqueue("send", id="late")


async def consumers(folder: Path) -> dict[str, tuple[int, float]]:
    store, services = LocalStore(folder), Services()
    reader = LogReader(store, services)
    state = (await load(store, reader, services)).state
    for commit in await reader.ahead(1, 100):
        state.fold(commit.header.at, commit.events)
    return state.consumers
