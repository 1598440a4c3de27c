"""Brings every table up to a commit of the log, each on its own and each exactly once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.errors import WarehouseBusy
from penstock.pipeline.tables import Increment, Table
from penstock.pipeline.warehouse.files import DataFile, read_files, write_files
from penstock.pipeline.warehouse.warehouse import Conflict, Snapshot, Warehouse
from penstock.ports.clock import Clock

logger = logging.getLogger(__name__)

TRIES_MAX: Final = 10
"""Each is lost to somebody who brought the table further, or to a store that does not answer."""

EVENTS_PER_TASK_MAX: Final = 50_000
"""An increment of no more than these is not worth the exchanges between tasks."""

Read: TypeAlias = Callable[[str, int, int], DataFrame]
"""A table of the source, from one commit to another, both included."""
OnStep: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Filled:
    """What was added to one table."""

    table: str
    rows: int
    files: int
    cursor: int


class Filling:
    def __init__(
        self,
        spark: SparkSession,
        warehouse: Warehouse,
        tables: Sequence[Table],
        start: int,
        clock: Clock,
        *,
        retain_days: int | None = None,
        on_step: OnStep = lambda step: None,
    ) -> None:
        self._spark = spark
        self._warehouse = warehouse
        self._tables = tables
        self._start = start
        self._clock = clock
        self._retain_days = retain_days
        self._on_step = on_step

    def cursor(self) -> int:
        """The last commit that all tables contain."""
        return min(self._cursor_of(self._warehouse.snapshot(table)) for table in self._tables)

    def fill(self, target: int, read: Read) -> list[Filled]:
        """What was added; tables that others had brought that far are left alone."""
        with _increments(read, target) as since:
            filled = [self._fill(table, target, since) for table in self._tables]
        return [each for each in filled if each is not None]

    def maintain(self, table: Table, today: date) -> None:
        keep_from = None
        if self._retain_days is not None:
            keep_from = today - timedelta(days=self._retain_days)
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        self._on_step(f"maintaining {table.name}")
        self._warehouse.maintain(table, today, keep_from, now)

    def _fill(self, table: Table, target: int, since: Since) -> Filled | None:
        problem: Conflict | None = None
        for _ in range(TRIES_MAX):
            self._on_step(f"looking at {table.name}")
            snapshot = self._warehouse.snapshot(table)
            cursor = self._cursor_of(snapshot)
            if cursor >= target:
                return None
            self._on_step(f"writing {table.name}")
            added, removed = self._written(table, snapshot, since(cursor))
            self._on_step(f"committing {table.name}")
            before = snapshot.files()
            try:
                snapshot.commit(added, removed, target)
            except Conflict as error:
                logger.info("%s changed meanwhile, looking again: %s", table.name, error)
                problem = error
                continue
            self._on_step(f"committed {table.name}")
            self._keep_house(table, before, added)
            rows = sum(file.rows for file in added) - sum(file.rows for file in removed)
            return Filled(table.name, rows, len(added), target)
        raise WarehouseBusy(f"{self._warehouse.place.name}/{table.name}", TRIES_MAX) from problem

    def _written(
        self, table: Table, snapshot: Snapshot, piece: Piece
    ) -> tuple[list[DataFile], list[DataFile]]:
        """The files that come, and those that go because what they have is in these too."""
        rows, old = table.rows(piece.increment), []
        if table.is_gold:
            first = table.bucket_of(piece.first_at)
            old = [file for file in snapshot.files() if file.may_reach(table.moment, first)]
            if old:
                kept = read_files(old, table, self._warehouse.place)
                both = rows.unionByName(self._spark.createDataFrame(kept, table.schema))
                rows = table.merged(both.coalesce(1) if piece.is_small else both)
            rows = rows.coalesce(1)
        return write_files(rows, table, self._warehouse.place.address), old

    def _keep_house(
        self, table: Table, before: Sequence[DataFile], added: Sequence[DataFile]
    ) -> None:
        """Once a day as the queue counts them: when a table gets its first rows of a new one."""
        newest = max((file.date for file in added), default="")
        if before and newest > max(file.date for file in before):
            self.maintain(table, date.fromisoformat(newest))

    def _cursor_of(self, snapshot: Snapshot) -> int:
        return self._start - 1 if snapshot.cursor is None else snapshot.cursor


@dataclass(frozen=True, slots=True)
class Piece:
    increment: Increment
    first_at: datetime
    """The time of its first event."""
    is_small: bool
    """It fits into one task, which has nobody to exchange rows with."""


Since: TypeAlias = Callable[[int], Piece]


@contextmanager
def _increments(read: Read, target: int) -> Iterator[Since]:
    """What comes after a cursor; tables with the same cursor share what was read."""
    pieces: dict[int, Piece] = {}
    kept: list[DataFrame] = []

    def since(cursor: int) -> Piece:
        if cursor not in pieces:
            events = read("events", cursor + 1, target).persist()
            kept.append(events)
            commits = read("commits", cursor + 1, target)
            # In microseconds: as a timestamp it would arrive in the machine's time zone.
            looks = (sf.min(sf.unix_micros("at")).alias("first"), sf.count("*").alias("events"))
            [row] = events.agg(*looks).collect()
            first_at = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=row["first"] or 0)
            is_small = row["events"] <= EVENTS_PER_TASK_MAX
            if is_small:
                events, commits = events.coalesce(1), commits.coalesce(1)
            pieces[cursor] = Piece(Increment(events, commits), first_at, is_small)
        return pieces[cursor]

    try:
        yield since
    finally:
        for events in kept:
            events.unpersist()
