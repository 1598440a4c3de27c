"""What can be said about a read, checked before anything is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct
from pyspark.sql.types import StructType

from penstock.address import Address, parse
from penstock.errors import InvalidInput, InvalidOption
from penstock.pipeline.schemas import SOURCE_TABLES

T = TypeVar("T")

JOBS_TABLE: Final = "jobs"
DEFAULT_TABLE: Final = "events"


class ReadOptions(Struct, frozen=True, kw_only=True):
    address: Address
    table: str = DEFAULT_TABLE
    from_commit: int | None = None
    to_commit: int | None = None
    since: float | None = None
    """Events at this time or later."""
    until: float | None = None
    """Events before this time."""
    as_of: int | float | None = None
    """A commit, or a time as a float: nothing that happened later is seen."""
    queue: str | None = None
    tenant: str | None = None
    partitions: int | None = None
    max_commits_per_batch: int | None = None
    max_events_per_batch: int | None = None
    consumer: str | None = None
    pushdown: bool = False

    @property
    def schema(self) -> StructType:
        return SOURCE_TABLES[self.table]


def parse_options(given: Mapping[str, str]) -> ReadOptions:
    known = sorted({*ReadOptions.__struct_fields__, "url"} - {"address"})
    # `load(url)` arrives as the option `path`.
    for name in given:
        if name not in known and name != "path":
            raise InvalidOption(name, given[name], f"known options are {', '.join(known)}")
    options = ReadOptions(
        address=queue_address(given.get("url") or given.get("path")),
        table=_table(given.get("table", DEFAULT_TABLE)),
        from_commit=_read(given, "from_commit", _commit),
        to_commit=_read(given, "to_commit", _commit),
        since=_read(given, "since", _time),
        until=_read(given, "until", _time),
        as_of=_read(given, "as_of", _commit_or_time),
        queue=given.get("queue"),
        tenant=given.get("tenant"),
        partitions=_read(given, "partitions", _count),
        max_commits_per_batch=_read(given, "max_commits_per_batch", _count),
        max_events_per_batch=_read(given, "max_events_per_batch", _count),
        consumer=given.get("consumer"),
        pushdown=_read(given, "pushdown", _switch) or False,
    )
    _require_sense(options)
    return options


def require_columns(options: ReadOptions, schema: StructType) -> None:
    """A schema of the caller's own picks columns; it can't rename or convert them."""
    known = {field.name: field.dataType for field in options.schema.fields}
    for field in schema.fields:
        if field.name not in known:
            rule = f"the table {options.table} has the columns {', '.join(known)}"
            raise InvalidOption("schema", field.name, rule)
        if field.dataType != known[field.name]:
            wanted = known[field.name].simpleString()
            raise InvalidOption("schema", field.name, f"this column is of type {wanted}")


def _require_sense(options: ReadOptions) -> None:
    if options.as_of is not None:
        for name in ("to_commit", "until"):
            if getattr(options, name) is not None:
                raise InvalidOption(name, getattr(options, name), "as_of says the same, take one")
    if options.max_commits_per_batch and options.max_events_per_batch:
        rule = "max_commits_per_batch says the same in other units, take one"
        raise InvalidOption("max_events_per_batch", options.max_events_per_batch, rule)
    for low, high in (("from_commit", "to_commit"), ("since", "until")):
        first, last = getattr(options, low), getattr(options, high)
        if first is not None and last is not None and last < first:
            raise InvalidOption(high, last, f"it is before {low}={first}")


def queue_address(url: str | None) -> Address:
    address = parse(url, {})
    if address.scheme == "memory":
        raise InvalidOption("url", address.url, "Spark's processes can't see another's memory")
    if "://" not in address.url and not Path(address.url).is_absolute():
        rule = f"Spark's processes may run in another folder: write file://{address.path}"
        raise InvalidOption("url", address.shown_url, rule)
    return address


def _table(name: str) -> str:
    if name not in SOURCE_TABLES:
        raise InvalidOption("table", name, f"the tables are {', '.join(SOURCE_TABLES)}")
    return name


def _read(given: Mapping[str, str], name: str, read: Callable[[str], T]) -> T | None:
    value = given.get(name)
    if value is None:
        return None
    try:
        return read(value)
    except InvalidInput as error:
        raise InvalidOption(name, value, str(error)) from None


def _commit(value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise InvalidInput("a commit is a whole number from 1 on")
    return int(value)


def _count(value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise InvalidInput("it must be a whole number of 1 or more")
    return int(value)


def _time(value: str) -> float:
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        raise InvalidInput("a time is written 2026-11-15T10:00:00Z") from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _commit_or_time(value: str) -> int | float:
    return _commit(value) if value.isdecimal() else _time(value)


def _switch(value: str) -> bool:
    if value not in ("on", "off", "true", "false"):
        raise InvalidInput("on or off")
    return value in ("on", "true")
