"""The stream writer: `df.writeStream.format("penstock")`.

A batch is known by its query's id, which is in its checkpoint and so stays, and its number.
A batch that is run again, because the driver died before Spark wrote down that it was done, has
the same ones and is published once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from penstock.errors import InvalidOption
from penstock.pipeline.sink.batch import TaskWritten, manifests_of
from penstock.pipeline.sink.columns import Array, Plan
from penstock.pipeline.sink.enqueuing import enqueue_rows, require_ids
from penstock.pipeline.sink.options import WriteOptions
from penstock.pipeline.sink.publishing import publish
from penstock.pipeline.sink.writing import write_rows

QUERY_PROPERTY: Final = "sql.streaming.queryId"
BATCH_PROPERTY: Final = "streaming.sql.batchId"


@dataclass
class BatchWritten(TaskWritten):
    query: str


class PenstockStreamWriter(DataSourceStreamArrowWriter):
    # The names and signatures are Spark's.

    def __init__(self, plan: Plan, options: WriteOptions) -> None:
        if options.is_run_named:
            raise InvalidOption("run", options.run, "a stream's runs are its batches: use query")
        if not options.takes_imports:
            require_ids(plan, options)
        self._plan = plan
        self._options = options

    def write(self, iterator: Iterator[Array]) -> WriterCommitMessage:
        if not self._options.takes_imports:
            enqueue_rows(iterator, self._plan, self._options)
            return WriterCommitMessage()
        query = self._options.query or _property(QUERY_PROPERTY)
        run = run_of(query, _property(BATCH_PROPERTY))
        manifest = write_rows(iterator, self._plan, self._options, run)
        return BatchWritten(manifest, query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        query = next((each.query for each in messages if isinstance(each, BatchWritten)), None)
        if query is not None:
            manifests = manifests_of(messages)
            publish(self._options, run_of(query, batchId), manifests, query, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Leaves what was written to the sweep: the same batch is going to be tried again."""


def run_of(query: str, batch: int | str) -> str:
    return f"{query}-{batch}"


def _property(name: str) -> str:
    context = TaskContext.get()
    value = context and context.getLocalProperty(name)
    assert value, f"Spark sets {name} for every task of a stream"
    return value
