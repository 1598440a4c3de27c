"""The files of a table: Parquet, written by Spark's tasks through penstock's own stores.

Names are unique per attempt of a task, so a task that is tried again, or run twice at once, leaves
files that nobody names; maintenance sweeps them. What counts is what the driver commits.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.address import Address
from penstock.pipeline.tables import PARTITION, Table
from penstock.pipeline.warehouse.place import Place
from penstock.ports.store import Overwrite
from penstock.runtime.identity import random_id
from penstock.runtime.loops import new_loop
from penstock.runtime.services import Services
from penstock.wiring import open_patient_store

FILE_BYTES_MAX: Final = 128 * 1024 * 1024
"""In memory; compressed, a file is a fraction of it."""
_RECORD: Final = "record string"
_MILLISECOND: Final = timedelta(milliseconds=1)


class DataFile(Struct, frozen=True, omit_defaults=True):
    path: str
    """Below the table's folder."""
    date: str
    rows: int
    size_bytes: int
    lowest: dict[str, Any] = {}
    """Of the columns that prune: times as ISO 8601, in UTC and rounded outwards."""
    highest: dict[str, Any] = {}

    def may_reach(self, moment: str, since: datetime) -> bool:
        """Whether it can have rows whose moment is not before this."""
        if self.date < since.date().isoformat():
            return False
        highest = self.highest.get(moment)
        return highest is None or datetime.fromisoformat(highest) >= since


def arrow_schema(table: Table) -> pa.Schema:
    return to_arrow_schema(table.schema, timezone="UTC")


def write_files(frame: DataFrame, table: Table, address: Address) -> list[DataFile]:
    """Has the tasks write the rows, and answers the files of those attempts that counted."""
    write = _writer(table.name, table.moment, table.file_seconds, arrow_schema(table), address)
    records = frame.mapInArrow(write, _RECORD).collect()
    return [msgspec.json.decode(row.record, type=DataFile) for row in records]


def read_files(files: Sequence[DataFile], table: Table, place: Place) -> pa.Table:
    schema = arrow_schema(table)
    parts = [schema.empty_table()]
    for file in files:
        stored = place.get(f"{table.name}/{file.path}")
        if stored is None:
            raise FileNotFoundError(f"{place.name}/{table.name}/{file.path}")
        parts.append(decoded_file(stored.data, schema, file.date))
    return pa.concat_tables(parts)


def store_file(rows: pa.Table, table: Table, day: str, place: Place) -> DataFile:
    """Writes rows of one day from here, for maintenance."""
    file, data = _encoded(rows.drop_columns([PARTITION]), table.moment, day)
    place.put(f"{table.name}/{file.path}", data, Overwrite())
    return file


def decoded_file(data: bytes, schema: pa.Schema, day: str) -> pa.Table:
    """The rows of a file, with the columns that it was written without."""
    rows = pq.read_table(io.BytesIO(data))
    columns = []
    for field in schema:
        if field.name == PARTITION:
            columns.append(pa.repeat(pa.scalar(date.fromisoformat(day)), len(rows)))
        elif field.name in rows.column_names:
            columns.append(rows.column(field.name).cast(field.type))
        else:
            columns.append(pa.nulls(len(rows), field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _writer(
    folder: str, moment: str, file_seconds: int, schema: pa.Schema, address: Address
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What runs in a task."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            spans = _Spans(moment, file_seconds, schema)
            store = open_patient_store(address, Services())

            def put(rows: pa.Table, day: str) -> pa.RecordBatch:
                file, data = _encoded(rows, moment, day)
                runner.run(store.put(f"{folder}/{file.path}", data, Overwrite()))
                return pa.RecordBatch.from_pydict({"record": [msgspec.json.encode(file).decode()]})

            for batch in batches:
                for full in spans.add(batch):
                    yield put(*full)
            for rest in spans.rest():
                yield put(*rest)
            runner.run(store.close())

    return write


class _Spans:
    """Rows on their way into files, apart by the span of time that their moment is in."""

    def __init__(self, moment: str, seconds: int, schema: pa.Schema) -> None:
        self._moment = moment
        self._unit = {3_600: "hour", 86_400: "day"}[seconds]
        self._schema = schema
        self._kept: dict[datetime, list[pa.Table]] = {}

    def add(self, batch: pa.RecordBatch) -> Iterator[tuple[pa.Table, str]]:
        rows = pa.Table.from_batches([batch]).cast(self._schema)
        moments = rows.column(self._moment).cast(pa.timestamp("us", "UTC"))
        starts = pc.floor_temporal(moments, unit=self._unit)
        found = pc.unique(starts).to_pylist()
        for start in found:
            part = rows if len(found) == 1 else rows.filter(pc.equal(starts, pa.scalar(start)))
            kept = self._kept.setdefault(start, [])
            kept.append(part)
            if sum(each.nbytes for each in kept) >= FILE_BYTES_MAX:
                yield self._file(start)

    def rest(self) -> Iterator[tuple[pa.Table, str]]:
        for start in sorted(self._kept):
            yield self._file(start)

    def _file(self, start: datetime) -> tuple[pa.Table, str]:
        rows = pa.concat_tables(self._kept.pop(start))
        return rows.drop_columns([PARTITION]), start.date().isoformat()


def _encoded(rows: pa.Table, moment: str, day: str) -> tuple[DataFile, bytes]:
    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="zstd")
    data = sink.getvalue()
    path = f"{PARTITION}={day}/part-{random_id()}.parquet"
    lowest, highest = {}, {}
    for name in {moment, "position", "commit"} & set(rows.column_names):
        ends = pc.min_max(rows.column(name)).as_py()
        lowest[name], highest[name] = _plain(ends["min"], up=False), _plain(ends["max"], up=True)
    return DataFile(path, day, rows.num_rows, len(data), lowest, highest), data


def _plain(value: Any, *, up: bool) -> Any:
    """A bound as Delta's statistics have it: times to the millisecond, and no closer."""
    if not isinstance(value, datetime):
        return value
    floored = value.replace(microsecond=value.microsecond // 1_000 * 1_000)
    rounded = floored + _MILLISECOND if up and floored != value else floored
    return rounded.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def statistics(file: DataFile) -> str:
    """As the Delta protocol has them in an add action."""
    return json.dumps(
        {"numRecords": file.rows, "minValues": file.lowest, "maxValues": file.highest}
    )
