"""Filling a queue from a DataFrame: how fast, with how few writes, and what the queue is like then.

The rival is `enqueue_many` from one Python process, in the same run. The session has just started:
that the first write starts Spark's Python workers is part of what it takes.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import penstock
from bench.figures import Row, passed, series
from bench.load import JOB_TYPE, PAYLOAD
from bench.plan import Plan, isolated
from bench.startup import resident_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOBS: Final = 1_000_000
QUICK_JOBS: Final = 200_000
RIVAL_JOBS: Final = 100_000
RIVAL_JOBS_PER_CALL: Final = 1_000
SECONDS_MAX: Final = 25.0
WRITES_MAX: Final = 40
RATIO_MIN: Final = 5.0
CLAIM_MILLISECONDS_MAX: Final = 100.0
GROWTH_BYTES_MAX: Final = 200 * 1024 * 1024
MASTER: Final = "local[2]"


@dataclass(frozen=True, slots=True)
class Filled:
    seconds: float
    writes: int
    claim_milliseconds: float
    growth_bytes: float


def measure(plan: Plan) -> list[Row]:
    from penstock.spark import session

    jobs = plan.scaled(JOBS, QUICK_JOBS)
    with tempfile.TemporaryDirectory(dir=plan.folder) as place:
        folders = (Path(place) / str(number) for number in range(2 * plan.rounds))
        plan.say("starts Spark")
        spark = session(MASTER, app_name="bench")
        try:
            runs = plan.interleaved(
                {
                    "the sink": lambda: _filled(spark, next(folders), jobs),
                    "enqueue_many": lambda: isolated(_rival_rate, next(folders)),
                }
            )
        finally:
            spark.stop()
    filled: list[Filled] = runs["the sink"]  # type: ignore[assignment]  # two kinds of runs
    rival: list[float] = runs["enqueue_many"]  # type: ignore[assignment]
    return _rows(jobs, filled, rival)


def _filled(spark: SparkSession, folder: Path, jobs: int) -> Filled:
    from pyspark.sql import functions as sf

    payload = sf.to_json(sf.struct(sf.lit(PAYLOAD["to"]).alias("to"), sf.col("id").alias("n")))
    frame = spark.range(jobs).select(sf.lit(JOB_TYPE).alias("type"), payload.alias("payload"))
    started_at = time.perf_counter()
    frame.write.format("penstock").mode("append").save(folder.as_uri())
    seconds = time.perf_counter() - started_at
    writes = sum(path.is_file() for path in folder.rglob("*"))
    return Filled(seconds, writes, *isolated(_claimed, folder))


def _claimed(folder: Path) -> tuple[float, float]:
    """The first claim in a fresh process: how long it takes, and what the process has grown by."""

    async def work() -> tuple[float, float]:
        before = resident_bytes()
        async with penstock.open(folder.as_uri()) as queue:
            asked_at = time.perf_counter()
            claimed = await queue.claim(1)
            milliseconds = (time.perf_counter() - asked_at) * 1_000
            assert len(claimed) == 1
            return milliseconds, resident_bytes() - before

    return asyncio.run(work())


def _rival_rate(folder: Path) -> float:
    async def work() -> float:
        async with penstock.open(folder.as_uri()) as queue:
            started_at = time.perf_counter()
            for _ in range(0, RIVAL_JOBS, RIVAL_JOBS_PER_CALL):
                new = [penstock.NewJob(JOB_TYPE, PAYLOAD) for _ in range(RIVAL_JOBS_PER_CALL)]
                await queue.enqueue_many(new)
            return RIVAL_JOBS / (time.perf_counter() - started_at)

    return asyncio.run(work())


def _rows(jobs: int, filled: list[Filled], rival: list[float]) -> list[Row]:
    seconds = series([run.seconds for run in filled], "s")
    rates = series([jobs / run.seconds for run in filled], "/s")
    claims = series([run.claim_milliseconds for run in filled], "ms")
    growth = series([run.growth_bytes for run in filled], "bytes")
    writes = max(run.writes for run in filled)
    ratio = rates.best / max(rival)
    at_most = partial("≤ {:g} {}".format)
    return [
        Row(
            f"{jobs:,} jobs from a DataFrame, the first write of a session included",
            seconds,
            bar=at_most(SECONDS_MAX, "s"),
            verdict=passed(max(seconds.values) <= SECONDS_MAX),
        ),
        Row(
            "the same: objects written",
            f"{writes}",
            bar=at_most(WRITES_MAX, "writes"),
            verdict=passed(writes <= WRITES_MAX),
        ),
        Row(
            "the same, as a rate",
            rates,
            "enqueue_many, one process",
            series(rival, "/s"),
            ratio,
            f"≥ {RATIO_MIN:g}×",
            passed(ratio >= RATIO_MIN),
        ),
        Row(
            "the first claim after that, in a fresh process",
            claims,
            bar=at_most(CLAIM_MILLISECONDS_MAX, "ms"),
            verdict=passed(claims.best <= CLAIM_MILLISECONDS_MAX),
        ),
        Row(
            "what that process grows by",
            growth,
            bar=at_most(GROWTH_BYTES_MAX / 1024**2, "MiB"),
            verdict=passed(max(growth.values) <= GROWTH_BYTES_MAX),
        ),
    ]
