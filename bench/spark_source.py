"""Reading events through Spark: penstock's source against `spark.read.json` on the same objects.

Both get the same columns and throw the rows away. Warm: each has read all of it once before.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import penstock
from bench.figures import Row, passed, series
from bench.load import JOB_TYPE, PAYLOAD
from bench.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

EVENTS: Final = 1_000_000
QUICK_EVENTS: Final = 200_000
EVENTS_PER_JOB: Final = 3
JOBS_PER_CALL: Final = 1_000
RATIO_MIN: Final = 0.5
MASTER: Final = "local[2]"


def measure(plan: Plan) -> list[Row]:
    from penstock.pipeline.schemas import EVENTS as COLUMNS
    from penstock.spark import session

    events = plan.scaled(EVENTS, QUICK_EVENTS)
    with tempfile.TemporaryDirectory(dir=plan.folder) as place:
        folder = Path(place) / "queue"
        plan.say(f"writes {events:,} events")
        asyncio.run(fill(folder, events // EVENTS_PER_JOB))
        plan.say("starts Spark")
        spark = session(MASTER, app_name="bench")
        try:
            some = COLUMNS.names[:8]
            wide = _rates(plan, spark, folder, COLUMNS)
            narrow = _rates(plan, spark, folder, type(COLUMNS)([COLUMNS[name] for name in some]))
        finally:
            spark.stop()
    return [
        _row(f"{events:,} events through the source, all columns", *wide),
        _row(f"the same, {len(some)} columns", *narrow),
    ]


async def fill(folder: Path, jobs: int) -> None:
    """Whole lives of jobs: enqueued, claimed, completed."""
    async with penstock.open(folder.as_uri(), fsync=False) as queue:
        for _ in range(0, jobs, JOBS_PER_CALL):
            new = [penstock.NewJob(JOB_TYPE, PAYLOAD) for _ in range(JOBS_PER_CALL)]
            await queue.enqueue_many(new)
            claimed = await queue.claim(JOBS_PER_CALL, worker="bench", lease_seconds=600)
            await queue.ack(claimed)


def _rates(
    plan: Plan, spark: SparkSession, folder: Path, schema: StructType
) -> tuple[list[float], list[float]]:
    source = spark.read.format("penstock").schema(schema).load(folder.as_uri())
    lines = spark.read.schema(_as_in_the_log(schema)).json(str(folder / "log"))
    rows = source.count()
    runs: dict[str, Callable[[], float]] = {
        "penstock": partial(_rate, source, rows),
        "spark.read.json": partial(_rate, lines, rows),
    }
    for run in runs.values():
        run()
    found = plan.interleaved(runs)
    return found["penstock"], found["spark.read.json"]


def _as_in_the_log(schema: StructType) -> StructType:
    """The same columns as `spark.read.json` can read them: times are numbers in the log."""
    from pyspark.sql.types import DoubleType, StructField, StructType, TimestampType

    return StructType(
        [
            StructField(field.name, DoubleType())
            if isinstance(field.dataType, TimestampType)
            else field
            for field in schema.fields
        ]
    )


def _rate(frame: DataFrame, rows: int) -> float:
    started_at = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return rows / (time.perf_counter() - started_at)


def _row(requirement: str, ours: list[float], theirs: list[float]) -> Row:
    ratio = max(ours) / max(theirs)
    return Row(
        requirement,
        series(ours, "/s"),
        "spark.read.json",
        series(theirs, "/s"),
        ratio,
        f"≥ {RATIO_MIN}×",
        passed(ratio >= RATIO_MIN),
    )
