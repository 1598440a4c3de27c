"""The batch writer: `df.write.format("penstock")`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from penstock.kernel.manifest import ImportManifest
from penstock.pipeline.sink.columns import Array, Plan
from penstock.pipeline.sink.enqueuing import enqueue_rows, require_ids
from penstock.pipeline.sink.options import WriteOptions
from penstock.pipeline.sink.publishing import give_up, publish
from penstock.pipeline.sink.writing import write_rows


@dataclass
class TaskWritten(WriterCommitMessage):
    manifest: ImportManifest


class PenstockWriter(DataSourceArrowWriter):
    def __init__(self, plan: Plan, options: WriteOptions) -> None:
        if not options.takes_imports:
            require_ids(plan, options)
        self._plan = plan
        self._options = options

    def write(self, iterator: Iterator[Array]) -> WriterCommitMessage:
        if not self._options.takes_imports:
            enqueue_rows(iterator, self._plan, self._options)
            return WriterCommitMessage()
        return TaskWritten(write_rows(iterator, self._plan, self._options, self._options.run))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._options.takes_imports:
            publish(self._options, self._options.run, manifests_of(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # A run with a name may be tried again under that name; what it wrote is swept in time.
        if self._options.takes_imports and not self._options.is_run_named:
            give_up(self._options, self._options.run)


def manifests_of(messages: list[WriterCommitMessage | None]) -> list[ImportManifest]:
    return [message.manifest for message in messages if isinstance(message, TaskWritten)]
