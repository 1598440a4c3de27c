"""Streams into a queue: each batch once, whatever is run again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

import penstock
from penstock.errors import PenstockError
from penstock.pipeline.failures import sentence


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"{tmp_path.as_uri()}/queue?fsync=off"


@pytest.fixture
def rows(spark: SparkSession, tmp_path: Path) -> DataFrame:
    (tmp_path / "in").mkdir()
    return spark.readStream.schema("n int").json(str(tmp_path / "in"))


def arrive(folder: Path, name: str, numbers: range) -> None:
    lines = "".join(f'{{"n": {n}}}\n' for n in numbers)
    (folder / "in" / f"{name}.json").write_text(lines)


def stream(rows: DataFrame, url: str, folder: Path, **options: str) -> StreamingQuery:
    jobs = rows.select(sf.lit("a").alias("type"), sf.struct("n").alias("payload"))
    query = (
        jobs.writeStream.format("penstock")
        .option("url", url)
        .options(**options)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def numbers(url: str) -> list[int]:
    async def read() -> list[int]:
        async with penstock.open(url) as queue:
            return sorted([job.payload["n"] async for job in queue.jobs()])

    return asyncio.run(read())


def test_each_batch_is_enqueued_once_also_when_it_is_run_again(
    rows: DataFrame, url: str, tmp_path: Path
) -> None:
    arrive(tmp_path, "one", range(10))
    stream(rows, url, tmp_path)
    arrive(tmp_path, "two", range(10, 15))
    stream(rows, url, tmp_path)
    assert numbers(url) == list(range(15))
    # As if the driver had died after its batch, before it wrote down that this was done.
    commits = tmp_path / "checkpoint" / "commits"
    newest = max((path for path in commits.iterdir() if path.name.isdecimal()), key=_number)
    newest.unlink()
    (commits / f".{newest.name}.crc").unlink(missing_ok=True)
    stream(rows, url, tmp_path)
    assert numbers(url) == list(range(15))
    arrive(tmp_path, "three", range(15, 20))
    stream(rows, url, tmp_path)
    assert numbers(url) == list(range(20))


def test_two_streams_into_one_queue_do_not_meet(rows: DataFrame, url: str, tmp_path: Path) -> None:
    arrive(tmp_path, "one", range(3))
    for name in ("left", "right"):
        (tmp_path / name).mkdir()
        stream(rows, url, tmp_path / name)
    assert numbers(url) == [0, 0, 1, 1, 2, 2]


def test_a_stream_has_batches_and_no_run(rows: DataFrame, url: str, tmp_path: Path) -> None:
    arrive(tmp_path, "one", range(3))
    with pytest.raises(Exception, match="batches") as caught:
        stream(rows, url, tmp_path, run="today")
    assert not isinstance(caught.value, PenstockError)
    assert "use query" in sentence(caught.value)


def _number(path: Path) -> int:
    return int(path.name)
