"""What a task does: its rows become import objects, of which it brings back the manifest.

Every attempt at a task writes under names of its own. Only what the driver publishes counts, and it
hears of the attempts that won.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any, Final

from pyspark import TaskContext

from penstock.client.import_writer import ImportWriter
from penstock.errors import InvalidInput, InvalidJob, PenstockError
from penstock.kernel.job import (
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
)
from penstock.kernel.manifest import ImportManifest
from penstock.pipeline.sink.columns import Array, Plan, Values
from penstock.pipeline.sink.options import WriteOptions
from penstock.wiring import import_writer

NEVER_NULL: Final = ("type", "id")
_IN_ORDER: Final = (
    "type", "payload", "queue", "priority", "run_at", "tenant", "codec", "max_attempts",
    "timeout_seconds", "retry", "meta", "trace", "id", "key",
)  # fmt: skip
"""As `ImportWriter.add` takes them: by place, since a million rows pass here."""
_DEFAULTS: Final[dict[str, Any]] = {
    "queue": DEFAULT_QUEUE,
    "priority": DEFAULT_PRIORITY,
}
"""What a null stands for, where it is not nothing."""


def write_rows(
    batches: Iterator[Array], plan: Plan, options: WriteOptions, run: str
) -> ImportManifest:
    with import_writer(options.address.url, run, **options.url_options) as writer:
        for batch in batches:
            _add_all(writer, plan, batch)
    return writer.manifest


def _add_all(writer: ImportWriter, plan: Plan, batch: Array) -> None:
    try:
        values = plan.values(batch)
        for name in NEVER_NULL:
            if None in values.get(name, ()):
                raise InvalidJob(name, None, "it must not be null")
        if "payload" in values:
            values["payload"] = writer.inline(values["payload"], plan.codec)
        add = writer.add
        for row in zip(*(_column(values, name, plan.codec) for name in _IN_ORDER), strict=False):
            add(*row)
    except PenstockError as error:
        where = f"row {writer.rows:,} or soon after, in partition {_partition()}"
        raise InvalidInput(f"{where}: {error}. Nothing was enqueued") from error


def _column(values: dict[str, Values], name: str, codec: str) -> Iterable[Any]:
    if name == "codec":
        return repeat(codec)
    default, given = _DEFAULTS.get(name), values.get(name)
    if given is None:
        return repeat(default)
    return given if default is None else (default if one is None else one for one in given)


def _partition() -> int | str:
    context = TaskContext.get()
    return "?" if context is None else context.partitionId()
