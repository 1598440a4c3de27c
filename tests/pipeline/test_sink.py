"""Frames become jobs: what may be in them, what is refused, and that a run happens once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

import penstock
from penstock import address
from penstock.errors import Moved, Unsupported
from penstock.kernel.job import Job
from penstock.pipeline.failures import sentence
from penstock.pipeline.sink.columns import plan
from penstock.pipeline.sink.enqueuing import enqueue_rows
from penstock.pipeline.sink.options import parse_write_options
from penstock.testing.conformance.backend.steps import nonzero
from tests.migration.ends import migrate


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"{tmp_path.as_uri()}/queue?fsync=off"


def save(frame: DataFrame, url: str, **options: str) -> None:
    frame.write.format("penstock").option("url", url).options(**options).mode("append").save()


def jobs_of(url: str, **options: Any) -> list[Job]:
    async def read() -> list[Any]:
        async with penstock.open(url, **options) as queue:
            return [job async for job in queue.jobs()]

    return asyncio.run(read())


def refusal(act: Callable[[], None]) -> str:
    with pytest.raises(PySparkException) as caught:
        act()
    return sentence(caught.value)


@pytest.mark.parametrize(
    ("payload", "wanted"),
    [
        ("'{\"n\": 1}'", {"n": 1}),
        ("struct(1 as n, 'a' as s)", {"n": 1, "s": "a"}),
        ("map('n', 1)", {"n": 1}),
        ("array(struct(map('n', 1) as m))", [{"m": {"n": 1}}]),
        ("""parse_json('{"n": [1, null]}')""", {"n": [1, None]}),
        ("cast('bytes' as binary)", b"bytes"),
        ("cast(null as string)", None),
    ],
    ids=["text", "struct", "map", "nested", "variant", "binary", "null"],
)
def test_a_payload_may_be_of_any_form(
    spark: SparkSession, url: str, payload: str, wanted: object
) -> None:
    save(spark.sql(f"select 'resize' type, {payload} payload"), url)
    (job,) = jobs_of(url)
    assert (job.type, job.payload) == ("resize", wanted)


def test_every_column_reaches_the_job(spark: SparkSession, url: str) -> None:
    frame = spark.sql(
        """select 'resize' type, '[1]' payload, 'images' queue, 5 priority,
        timestamp '2030-01-01 00:00:00' run_at, map('who', 'me') meta, 'acme' tenant,
        7 max_attempts, 1.5 timeout_seconds"""
    )
    save(frame, url)
    (job,) = jobs_of(url, tenant="acme")
    assert (job.queue, job.priority, job.meta) == ("images", 5, {"who": "me"})
    assert (job.max_attempts, job.timeout_seconds) == (7, 1.5)
    assert job.run_at == 1_893_456_000.0


def test_an_empty_frame_enqueues_nothing(spark: SparkSession, url: str) -> None:
    save(spark.sql("select 'resize' type where false"), url)
    assert jobs_of(url) == []


def test_the_same_run_happens_once(spark: SparkSession, url: str) -> None:
    frame = spark.range(30).select(sf.lit("resize").alias("type"))
    save(frame, url, run="today")
    save(frame, url, run="today")
    assert len(jobs_of(url)) == 30
    save(frame, url)
    assert len(jobs_of(url)) == 60


def test_rows_with_ids_or_keys_are_enqueued_once_however_often(
    spark: SparkSession, url: str
) -> None:
    ids = spark.range(20).select(sf.lit("a").alias("type"), sf.col("id").cast("string"))
    keys = spark.range(20).select(
        sf.lit("b").alias("type"), (sf.col("id") % 5).cast("string").alias("key")
    )
    for _ in range(2):
        save(ids, url)
        save(keys, url)
    jobs = jobs_of(url)
    assert sorted(int(job.id) for job in jobs if job.type == "a") == list(range(20))
    assert sorted(str(job.key) for job in jobs if job.type == "b") == list("01234")


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ("select 'x' payload", "needs a column 'type'"),
        ("select 'a' type, 1 colour", "column 'colour' is not one of a job"),
        ("select 'a' type, 'high' priority", "column 'priority' is string; it can be"),
        ("select 'a' type, 1 payload", "column 'payload' is int; it can be"),
        ("select 'a' type, '{oops' payload", "row 0"),
        ("select cast(null as string) type", "type=None can't be used: it must not be null"),
        ("select 'a' type, cast(null as string) id", "id=None can't be used: it must not be null"),
        ("select 'a' type, '[1]' meta", "column 'meta' must hold JSON objects"),
        ("select '' type", "type=''"),
        ("select 'a' type, repeat('0', 300000) payload", "300,000"),
    ],
)
def test_what_can_t_be_a_job_is_refused_and_nothing_is_enqueued(
    spark: SparkSession, url: str, select: str, said: str
) -> None:
    assert said in refusal(lambda: save(spark.sql(select), url))
    assert jobs_of(url) == []


def test_options_and_modes_that_mean_nothing_are_refused(spark: SparkSession, url: str) -> None:
    frame = spark.sql("select 'a' type")
    assert "known options are url, run" in refusal(lambda: save(frame, url, colour="red"))
    assert "1 to 100 letters" in refusal(lambda: save(frame, url, run="a/b"))
    assert "can't see another's memory" in refusal(lambda: save(frame, "memory://"))
    overwriting = frame.write.format("penstock").option("url", url).mode("overwrite")
    assert "jobs are only ever added" in refusal(overwriting.save)
    assert jobs_of(url) == []


def test_a_queue_that_takes_no_bulk_imports_is_refused_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(address, "SCHEMES", ("elsewhere",))
    with pytest.raises(Unsupported, match=r"^elsewhere:// does not support bulk imports, which"):
        parse_write_options({"url": "elsewhere://host/queue"})


def test_the_layout_is_that_of_the_queue_which_is_there(spark: SparkSession, url: str) -> None:
    with penstock.open_sync(url, layout="tasks"):
        pass
    frame = spark.range(20).select(sf.lit("a").alias("type"), sf.col("id").cast("string"))
    said = refusal(lambda: save(frame.select("type"), url))
    assert "layout 'tasks' does not support bulk imports: give the rows a column 'id'" in said
    for _ in range(2):
        save(frame, url)
    assert sorted(int(job.id) for job in jobs_of(url)) == list(range(20))


async def test_rows_that_a_queue_refuses_one_by_one_fail_the_write(tmp_path: Path) -> None:
    url = f"{tmp_path.as_uri()}/queue?layout=tasks"
    await migrate(url, f"memory://{tmp_path.name}")
    schema = StructType([StructField("type", StringType()), StructField("id", StringType())])
    rows = pa.RecordBatch.from_pydict({"type": ["work"] * 2, "id": ["a", "b"]})
    with pytest.raises(Moved):
        await asyncio.to_thread(
            enqueue_rows, iter([rows]), plan(schema), parse_write_options({"url": url})
        )


def test_one_bad_row_among_many_leaves_nothing(spark: SparkSession, url: str) -> None:
    payload = sf.when(sf.col("id") == 900, "oops").otherwise("{}").alias("payload")
    frame = spark.range(1_000).select(sf.lit("a").alias("type"), payload)
    assert "Nothing was enqueued" in refusal(lambda: save(frame, url))
    assert jobs_of(url) == []


def test_what_was_written_is_claimed_and_completed(spark: SparkSession, url: str) -> None:
    frame = spark.range(2_500).select(
        sf.lit("double").alias("type"), sf.struct(sf.col("id").alias("n")).alias("payload")
    )
    save(frame, url)

    async def drain() -> None:
        async with penstock.open(url) as queue:
            assert nonzero((await queue.stats()).totals) == {"pending": 2_500}
            done = set[int]()
            while jobs := await queue.claim(500):
                await queue.ack(jobs)
                done |= {job.payload["n"] for job in jobs}
            assert done == set(range(2_500))
            assert nonzero((await queue.stats()).totals) == {"completed": 2_500}

    asyncio.run(drain())
