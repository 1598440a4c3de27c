"""Runs on a cluster of its own for what one machine's threads can't show; a process of its own.

python -m tests.pipeline.cluster_runs speculate URL FOLDER
python -m tests.pipeline.cluster_runs bare URL FOLDER
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import functions as sf

from penstock.errors import SparkFailed
from penstock.pipeline.run import Plan, opened_pipeline
from penstock.pipeline.session import session

ROWS = 400
PARTITIONS = 4
WAIT_SECONDS_MAX = 120.0


def speculate(master: str, url: str, folder: str) -> None:
    """The first attempt at one task waits until Spark has begun another at it; both write."""
    spark = session(
        master,
        # So that another attempt is none after a failure.
        spark__task__maxFailures="1",
        spark__speculation="true",
        spark__speculation__interval="50ms",
        spark__speculation__quantile="0.5",
        spark__speculation__multiplier="1.01",
        spark__speculation__minTaskRuntime="50ms",
    )
    begun = Path(folder) / "begun"

    def slow(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 0 and context.attemptNumber() > 0:
            begun.touch()
        yield from batches
        pause = threading.Event()
        until = time.monotonic() + WAIT_SECONDS_MAX
        while context.partitionId() == 0 and not begun.exists():
            assert time.monotonic() < until, "nobody began another attempt"
            pause.wait(0.05)

    rows = spark.range(ROWS, numPartitions=PARTITIONS).select(
        sf.lit("work").alias("type"), sf.struct(sf.col("id").alias("n")).alias("payload")
    )
    rows.mapInArrow(slow, rows.schema).write.format("penstock").mode("append").save(url)
    spark.stop()


def bare(url: str, folder: str) -> None:
    """The executors' Python has no penstock."""
    hidden = Path(folder) / "bare" / "penstock"
    hidden.mkdir(parents=True)
    words = "raise ModuleNotFoundError(\"No module named 'penstock'\", name='penstock')\n"
    (hidden / "__init__.py").write_text(words)
    spark = session("local-cluster[1,1,1024]", spark__executorEnv__PYTHONPATH=str(hidden.parent))
    try:
        with opened_pipeline(spark, Plan(url, str(Path(folder) / "warehouse"))) as pipeline:
            pipeline.run_once()
    except SparkFailed as error:
        sys.stdout.write(str(error))
    spark.stop()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["speculate", master, url, folder]:
            speculate(master, url, folder)
        case ["bare", url, folder]:
            bare(url, folder)
        case unknown:
            sys.exit(f"what is {unknown}?")
