"""Plain Parquet folders, for readers that know nothing else.

`{table}/manifest.json` names the files that count and the cursor, and is replaced by
compare-and-set: whoever reads it has one state of the table or the next, and never a mixture. Files
that it does not name are leftovers of attempts that did not count.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import date, datetime
from typing import Final

import msgspec
from msgspec import Struct

from penstock.errors import ForeignWarehouse, StoreError
from penstock.pipeline.tables import Table
from penstock.pipeline.warehouse.files import DataFile, read_files, store_file
from penstock.pipeline.warehouse.place import Place
from penstock.pipeline.warehouse.warehouse import Conflict, crowded_days
from penstock.ports.store import Create, PutMode, Replace
from penstock.runtime.identity import random_id
from penstock.wire.level import UNREADABLE

logger = logging.getLogger(__name__)

KIND: Final = "parquet"
ORPHAN_SECONDS: Final = 7 * 86_400


class Manifest(Struct, frozen=True):
    queue: str
    cursor: int | None
    columns: dict[str, str]
    files: list[DataFile]
    nonce: str
    """Makes the content, and so its version, unique: some stores' versions are content hashes."""


class ParquetWarehouse:
    def __init__(self, place: Place, queue: str) -> None:
        self.place = place
        self._queue = queue

    def snapshot(self, table: Table) -> ParquetSnapshot:
        stored = self.place.get(manifest_key(table.name))
        if stored is None:
            nothing = Manifest(self._queue, None, columns_of(table), [], "")
            return ParquetSnapshot(self.place, table, nothing, Create())
        manifest = self._decoded(table, stored.data)
        return ParquetSnapshot(self.place, table, manifest, Replace(stored.version))

    def maintain(self, table: Table, today: date, keep_from: date | None, now: datetime) -> None:
        snapshot = self.snapshot(table)
        files = snapshot.files()
        expired = [
            file for file in files if keep_from is not None and file.date < keep_from.isoformat()
        ]
        removed, added = list(expired), []
        for day in crowded_days([file for file in files if file not in expired], today):
            small = [file for file in files if file.date == day]
            added.append(store_file(read_files(small, table, self.place), table, day, self.place))
            removed += small
        try:
            if removed and snapshot.cursor is not None:
                snapshot.commit(added, removed, snapshot.cursor)
        except Conflict as error:
            logger.warning("maintenance of %s waits for another day: %s", table.name, error)
            return
        self._sweep(table, now)

    def _sweep(self, table: Table, now: datetime) -> None:
        entries = self.place.entries(f"{table.name}/")
        # After the listing: what is named by now was listed or is younger than it.
        named = {f"{table.name}/{file.path}" for file in self.snapshot(table).files()}
        before = now.timestamp() - ORPHAN_SECONDS
        for entry in entries:
            is_data = entry.key.endswith(".parquet")
            if is_data and entry.key not in named and entry.modified_at < before:
                self.place.delete(entry.key)

    def _decoded(self, table: Table, data: bytes) -> Manifest:
        where = f"{self.place.name}/{table.name}"
        try:
            manifest = msgspec.json.decode(data, type=Manifest)
        except UNREADABLE as error:
            raise ForeignWarehouse(where, f"its manifest can't be read ({error})") from error
        if manifest.queue != self._queue:
            raise ForeignWarehouse(where, "it is a table, but not of this queue")
        for name, type in columns_of(table).items():
            there = manifest.columns.get(name, type)
            if there != type:
                raise ForeignWarehouse(where, f"its column {name} is {there}, not {type}")
        return manifest


class ParquetSnapshot:
    def __init__(self, place: Place, table: Table, manifest: Manifest, mode: PutMode) -> None:
        self._place = place
        self._table = table
        self._manifest = manifest
        self._mode = mode

    @property
    def cursor(self) -> int | None:
        return self._manifest.cursor

    def files(self) -> list[DataFile]:
        return self._manifest.files

    def commit(self, added: Sequence[DataFile], removed: Sequence[DataFile], cursor: int) -> None:
        gone = {file.path for file in removed}
        kept = [file for file in self._manifest.files if file.path not in gone]
        after = Manifest(
            self._manifest.queue,
            cursor,
            {**self._manifest.columns, **columns_of(self._table)},
            [*kept, *added],
            random_id(),
        )
        try:
            self._place.put(manifest_key(self._table.name), msgspec.json.encode(after), self._mode)
        except StoreError as error:
            raise Conflict(str(error)) from error


def manifest_key(table: str) -> str:
    return f"{table}/manifest.json"


def columns_of(table: Table) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in table.schema.fields}
