"""A queue to read: three jobs whose lives are short, in eight commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import penstock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMMITS = 8


async def write_lives(url: str) -> None:
    """`a` completes, `b` fails and is replayed, `c` is retried and then cancelled."""
    async with penstock.open(url) as queue:
        await queue.enqueue("resize", {"id": 7}, id="a", queue="images", key="k", meta={"by": "x"})
        await queue.enqueue_many([penstock.NewJob("send", id=id) for id in "bc"])
        a, b, c = await queue.claim(3, worker="w1")
        await queue.ack(a, result={"ok": True})
        await queue.nack(b, error="boom", retry=False)
        await queue.nack(c, error="later")
        await queue.cancel("c")
        await queue.replay("b")


def read(spark: SparkSession, url: str, table: str, **options: Any) -> DataFrame:
    return spark.read.format("penstock").options(url=url, table=table, **options).load()


def rows(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """What a frame holds, in the order of the log."""
    return [tuple(row) for row in frame.orderBy("position").select(*columns).collect()]
