"""A write to a queue that meets trouble at a chosen place; a process of its own.

    python -m tests.pipeline.troubled_write MASTER URL RUN ROWS PLACE [ids]

Places: `task` (a task has written its rows), `start` (all have; nothing is published), `before:N`
and `after:N` (the n-th commit to the log), `end` (it is published, Spark does not know). There, the
driver, its JVM and whoever is at work are killed with `kill -9`. At `fail`, nobody is killed: the
first attempt of every task writes its rows and then raises.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql import functions as sf
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.pipeline.datasource import PenstockDataSource
from penstock.pipeline.session import session
from penstock.pipeline.sink.batch import PenstockWriter
from penstock.pipeline.sink.columns import plan
from penstock.pipeline.sink.options import parse_write_options
from penstock.stores.local import LocalStore

PARTITIONS = 4


class TroubledWriter(PenstockWriter):
    place = ""
    pids: tuple[int, ...] = ()

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        written = super().write(iterator)
        self._reach("task")
        context = TaskContext.get()
        assert context is not None
        if self.place == "fail" and context.attemptNumber() == 0:
            raise RuntimeError("on purpose")
        return written

    def commit(self, messages: list[Any]) -> None:
        self._reach("start")
        self._watch_puts()
        super().commit(messages)
        self._reach("end")

    def _watch_puts(self) -> None:
        put, reach, commits = LocalStore.put, self._reach, 0

        async def watched(self: LocalStore, key: str, data: bytes, mode: Any) -> Any:
            nonlocal commits
            if not key.startswith("log/"):
                return await put(self, key, data, mode)
            commits += 1
            reach(f"before:{commits}")
            written = await put(self, key, data, mode)
            reach(f"after:{commits}")
            return written

        LocalStore.put = watched  # type: ignore[method-assign]

    def _reach(self, place: str) -> None:
        if place == self.place:
            for pid in (*self.pids, os.getpid()):
                os.kill(pid, signal.SIGKILL)


class TroubledSource(PenstockDataSource):
    def writer(self, schema: StructType, overwrite: bool) -> TroubledWriter:
        options = dict(self.options)
        place, pids = options.pop("place"), options.pop("pids")
        writer = TroubledWriter(plan(schema), parse_write_options(options))
        writer.place, writer.pids = place, tuple(map(int, pids.split(",")))
        return writer


def main(master: str, url: str, run: str, rows: str, place: str, *columns: str) -> None:
    spark = session(master)
    spark.dataSource.register(TroubledSource)
    java = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    frame = spark.range(0, int(rows), 1, PARTITIONS).select(
        sf.lit("double").alias("type"),
        sf.struct(sf.col("id").alias("n")).alias("payload"),
        *(sf.col("id").cast("string") for _ in columns),
    )
    options = {"url": url, "run": run, "place": place, "pids": f"{os.getpid()},{java}"}
    frame.write.format("penstock").options(**options).mode("append").save()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
