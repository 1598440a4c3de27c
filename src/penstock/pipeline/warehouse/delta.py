"""Delta Lake tables without jars, through delta-rs.

A table's cursor is the version of the transaction that it names after the queue: Delta keeps it
in the same commit as the files.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Final

import pyarrow as pa

from penstock.errors import ForeignWarehouse, MissingExtra
from penstock.pipeline.tables import PARTITION, Table
from penstock.pipeline.warehouse.files import DataFile, arrow_schema, statistics
from penstock.pipeline.warehouse.place import Place
from penstock.pipeline.warehouse.warehouse import Conflict, crowded_days

try:
    from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
    from deltalake.exceptions import DeltaError, TableNotFoundError
    from deltalake.transaction import AddAction, RemoveAction
except ImportError as error:
    raise MissingExtra("spark", "a warehouse of Delta tables") from error

logger = logging.getLogger(__name__)

KIND: Final = "delta"
ORPHAN_HOURS: Final = 7 * 24
"""How long a file that no table names is left alone: nobody writes for that long."""
_OWNER: Final = "penstock.queue"
_ONCE: Final = 0
"""Retries of delta-rs's own: it would look at the table again and commit on top of what it finds,
also on top of the same commits."""


class DeltaWarehouse:
    def __init__(self, place: Place, queue: str) -> None:
        self.place = place
        self._queue = queue
        self._options = storage_options(place)

    def snapshot(self, table: Table) -> DeltaSnapshot:
        opened = self._opened(table) or self._made(table)
        if opened.metadata().configuration.get(_OWNER) != self._queue:
            raise ForeignWarehouse(self._uri(table), "it is a table, but not of this queue")
        if self._gained_columns(opened, table):
            opened = self._opened(table) or self._made(table)
        return DeltaSnapshot(opened, table, self._queue)

    def maintain(self, table: Table, today: date, keep_from: date | None, now: datetime) -> None:
        opened = self._opened(table)
        if opened is None:
            return
        try:
            if keep_from is not None:
                opened.delete(f"{PARTITION} < '{keep_from.isoformat()}'")
            for day in crowded_days(_files(opened, table), today):
                opened.optimize.compact(partition_filters=[(PARTITION, "=", day)])
            opened.vacuum(retention_hours=ORPHAN_HOURS, dry_run=False, full=True)
        except DeltaError as error:
            logger.warning("maintenance of %s waits for another day: %s", table.name, error)

    def _uri(self, table: Table) -> str:
        return table_uri(self.place, table.name)

    def _opened(self, table: Table) -> DeltaTable | None:
        try:
            return DeltaTable(self._uri(table), storage_options=self._options)
        except TableNotFoundError:
            return None

    def _made(self, table: Table) -> DeltaTable:
        if self.place.entries(f"{table.name}/") and self._opened(table) is None:
            raise ForeignWarehouse(self._uri(table), "it is no Delta table")
        try:
            DeltaTable.create(
                self._uri(table),
                arrow_schema(table),
                partition_by=[PARTITION],
                name=table.name,
                configuration={_OWNER: self._queue},
                storage_options=self._options,
                raise_if_key_not_exists=False,
            )
        except DeltaError:
            # Another was first, or our own answer was lost: what counts is what is there.
            logger.debug("%s was made by another", table.name, exc_info=True)
        return DeltaTable(self._uri(table), storage_options=self._options)

    def _gained_columns(self, opened: DeltaTable, table: Table) -> bool:
        """Whether the table was given columns that it lacked; raises if it has others."""
        wanted = Schema.from_arrow(arrow_schema(table)).fields
        there = {field.name: field for field in opened.schema().fields}
        for field in wanted:
            if field.name in there and there[field.name].type != field.type:
                raise ForeignWarehouse(
                    self._uri(table),
                    f"its column {field.name} is {there[field.name].type}, not {field.type}",
                )
        missing = [field for field in wanted if field.name not in there]
        if not missing:
            return False
        try:
            opened.alter.add_columns([Field(each.name, each.type) for each in missing])
        except DeltaError:
            logger.debug("%s was given its columns by another", table.name, exc_info=True)
        return True


class DeltaSnapshot:
    def __init__(self, opened: DeltaTable, table: Table, queue: str) -> None:
        self._opened = opened
        self._table = table
        self._queue = queue

    @property
    def cursor(self) -> int | None:
        return self._opened.transaction_version(self._queue)

    def files(self) -> list[DataFile]:
        return _files(self._opened, self._table)

    def commit(self, added: Sequence[DataFile], removed: Sequence[DataFile], cursor: int) -> None:
        properties = CommitProperties(
            app_transactions=[Transaction(self._queue, cursor)], max_commit_retries=_ONCE
        )
        try:
            self._opened.create_write_transaction(
                [*map(_addition, added), *map(_removal, removed)],
                "append",
                self._opened.schema(),
                [PARTITION],
                commit_properties=properties,
            )
        except (DeltaError, OSError) as error:
            raise Conflict(f"{self._table.name}: {error}") from error


def table_uri(place: Place, name: str) -> str:
    address = place.address
    if address.scheme == "file":
        return f"{address.path.rstrip('/')}/{name}"
    return "/".join(
        part for part in (f"{address.scheme}://{address.place}", address.path, name) if part
    )


def storage_options(place: Place) -> dict[str, str]:
    """The same store as delta-rs is told of it; credentials it finds where obstore does."""
    address = place.address
    if address.scheme == "file":
        return {}
    options: dict[str, str] = {}
    endpoint = address.options.endpoint
    if endpoint:
        options["endpoint" if address.scheme != "gs" else "google_base_url"] = endpoint
        if endpoint.startswith("http://"):
            options["allow_http"] = "true"
    if address.scheme == "s3":
        options["aws_conditional_put"] = "etag"
        if address.options.region:
            options["aws_region"] = address.options.region
        if endpoint:
            options["aws_virtual_hosted_style_request"] = "false"
            options["aws_endpoint"] = options.pop("endpoint")
    return options


def _files(opened: DeltaTable, table: Table) -> list[DataFile]:
    actions: Any = pa.table(opened.get_add_actions(flatten=True))
    wanted = {
        "path": "path",
        "date": f"partition.{PARTITION}",
        "rows": "num_records",
        "size_bytes": "size_bytes",
        "highest": f"max.{table.moment}",
    }
    found = [name for name in wanted.values() if name in actions.column_names]
    files = []
    for row in actions.select(found).to_pylist():
        highest = row.get(wanted["highest"])
        files.append(
            DataFile(
                row["path"],
                row[wanted["date"]].isoformat(),
                row["num_records"] or 0,
                row["size_bytes"],
                highest={} if highest is None else {table.moment: highest.isoformat()},
            )
        )
    return files


def _addition(file: DataFile) -> AddAction:
    # Delta goes by the version and not by this time; vacuum goes by the store's own.
    return AddAction(file.path, file.size_bytes, {PARTITION: file.date}, 0, True, statistics(file))


def _removal(file: DataFile) -> RemoveAction:
    return RemoveAction(
        file.path,
        data_change=True,
        deletion_timestamp=0,
        size=file.size_bytes,
        partition_values={PARTITION: file.date},
    )
