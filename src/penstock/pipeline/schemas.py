"""Every table's columns, once.

Columns are called what the fields of events and jobs are called. Times are timestamps in UTC with
microseconds, durations are seconds as doubles. What a job carries for its handler stays encoded:
JSON where its codec is `json`, otherwise a JSON string of base64, exactly as in the log.

Source tables are what `format("penstock")` reads. In the warehouse, `jobs` has endings alone;
read from a queue, it has the live jobs too. Gold tables are sums over a key: rows of the same key
may be added up, sketches merged, minima and maxima taken, in any order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

BINARY: Final = BinaryType()
BOOLEAN: Final = BooleanType()
DATE: Final = DateType()
DOUBLE: Final = DoubleType()
INTEGER: Final = IntegerType()
JSON: Final = StringType()
"""A JSON text; `parse_json`, `from_json` and `get_json_object` look inside."""
LONG: Final = LongType()
STRING: Final = StringType()
TIMESTAMP: Final = TimestampType()


def _table(
    required: Mapping[str, DataType], optional: Mapping[str, DataType] | None = None
) -> StructType:
    return StructType(
        [StructField(name, type, nullable=False) for name, type in required.items()]
        + [StructField(name, type, nullable=True) for name, type in (optional or {}).items()]
    )


ERROR: Final = _table({}, {"attempt": INTEGER, "at": TIMESTAMP, "kind": STRING, "message": STRING})
"""Why one attempt did not succeed: an element of a job's `errors`."""

EVENTS: Final = _table(
    {"position": LONG, "commit": LONG, "at": TIMESTAMP, "event": STRING, "tenant": STRING},
    {
        "queue": STRING,
        "type": STRING,
        "id": STRING,
        "life": LONG,
        "attempt": INTEGER,
        "failures": INTEGER,
        "enqueued_at": TIMESTAMP,
        "run_at": TIMESTAMP,
        "due_at": TIMESTAMP,
        "started_at": TIMESTAMP,
        "worker": STRING,
        "operation": STRING,
        "lease_until": TIMESTAMP,
        "progress": DOUBLE,
        "progress_message": STRING,
        "kind": STRING,
        "error": STRING,
        "traceback": STRING,
        "payload": JSON,
        "codec": STRING,
        "payload_key": STRING,
        "priority": LONG,
        "max_attempts": LONG,
        "retry": JSON,
        "timeout_seconds": DOUBLE,
        "key": STRING,
        "key_until": TIMESTAMP,
        "meta": JSON,
        "trace": STRING,
        "errors": ArrayType(ERROR),
        "result": JSON,
        "result_codec": STRING,
        "result_key": STRING,
        "settings": JSON,
        "checkpoint_commit": LONG,
        "size_bytes": LONG,
        "before": TIMESTAMP,
        "consumer": STRING,
        "reached": LONG,
        "run": STRING,
        "rows": LONG,
        "objects": JSON,
        "query": STRING,
        "batch": LONG,
        "source": LONG,
        "row": LONG,
    },
)
"""One row per event. The log's `commit` of a `checkpointed` event is `checkpoint_commit` here."""

JOBS: Final = _table(
    {"tenant": STRING, "id": STRING, "life": LONG, "queue": STRING, "type": STRING},
    {
        "state": STRING,
        "position": LONG,
        "commit": LONG,
        "enqueued_at": TIMESTAMP,
        "run_at": TIMESTAMP,
        "started_at": TIMESTAMP,
        "ended_at": TIMESTAMP,
        "archived_at": TIMESTAMP,
        "attempt": INTEGER,
        "failures": INTEGER,
        "max_attempts": LONG,
        "priority": LONG,
        "timeout_seconds": DOUBLE,
        "retry": JSON,
        "key": STRING,
        "key_until": TIMESTAMP,
        "meta": JSON,
        "trace": STRING,
        "payload": JSON,
        "codec": STRING,
        "payload_key": STRING,
        "result": JSON,
        "result_codec": STRING,
        "result_key": STRING,
        "kind": STRING,
        "error": STRING,
        "errors": ArrayType(ERROR),
        "progress": DOUBLE,
        "progress_message": STRING,
        "worker": STRING,
        "lease_until": TIMESTAMP,
    },
)
"""One row per job, and in the warehouse per (tenant, id, life, ending).

`position` is that of its latest transition: of an ended job, its ending. `kind` and `error` are
those of its last failed attempt. An ending does not carry the payload.
"""

ATTEMPTS: Final = _table(
    {
        "position": LONG,
        "commit": LONG,
        "tenant": STRING,
        "queue": STRING,
        "type": STRING,
        "id": STRING,
        "life": LONG,
        "attempt": INTEGER,
        "outcome": STRING,
    },
    {
        "enqueued_at": TIMESTAMP,
        "due_at": TIMESTAMP,
        "started_at": TIMESTAMP,
        "ended_at": TIMESTAMP,
        "wait_seconds": DOUBLE,
        "run_seconds": DOUBLE,
        "kind": STRING,
        "error": STRING,
        "traceback": STRING,
        "worker": STRING,
    },
)
"""One row per attempt that ended; `outcome` is the event that ended it.

`wait_seconds` is from when it was due to when it started, `run_seconds` from there to its end. A
job that was cancelled before it started had no attempt and has no row.
"""

COMMITS: Final = _table(
    {
        "commit": LONG,
        "at": TIMESTAMP,
        "events": LONG,
    },
    {
        "commit_id": STRING,
        "writer": STRING,
        "epoch": LONG,
        "size_bytes": LONG,
    },
)
"""`size_bytes` is what a commit weighs as an object of layout `log`, and null elsewhere; of layout
`single` and the like, nothing is known of a commit but its events."""

SOURCE_TABLES: Final[Mapping[str, StructType]] = {
    "events": EVENTS,
    "jobs": JOBS,
    "attempts": ATTEMPTS,
    "commits": COMMITS,
}

THROUGHPUT: Final = _table(
    {"minute": TIMESTAMP, "tenant": STRING, "queue": STRING, "type": STRING},
    {
        "enqueued": LONG,
        "started": LONG,
        "completed": LONG,
        "failed": LONG,
        "retried": LONG,
        "expired": LONG,
        "cancelled": LONG,
        "released": LONG,
        "snoozed": LONG,
        "wait_count": LONG,
        "wait_seconds_sum": DOUBLE,
        "wait_seconds_max": DOUBLE,
        "wait_sketch": BINARY,
        "run_count": LONG,
        "run_seconds_sum": DOUBLE,
        "run_seconds_max": DOUBLE,
        "run_sketch": BINARY,
    },
)
"""The sketches are KLL sketches of doubles; `kll_merge_agg_double` adds them up."""

ERRORS: Final = _table(
    {
        "date": DATE,
        "tenant": STRING,
        "queue": STRING,
        "type": STRING,
        "kind": STRING,
        "fingerprint": STRING,
    },
    {
        "count": LONG,
        "first_at": TIMESTAMP,
        "last_at": TIMESTAMP,
        "example": STRING,
        "example_traceback": STRING,
        "example_id": STRING,
        "example_position": LONG,
    },
)
"""Failed attempts by what they have in common; the example is that of the lowest position."""

WORKERS: Final = _table(
    {"hour": TIMESTAMP, "tenant": STRING, "worker": STRING},
    {
        "attempts": LONG,
        "completed": LONG,
        "failed": LONG,
        "busy_seconds": DOUBLE,
        "first_at": TIMESTAMP,
        "last_at": TIMESTAMP,
    },
)

COST: Final = _table(
    {"hour": TIMESTAMP},
    {
        "commits": LONG,
        "put_requests": LONG,
        "events": LONG,
        "jobs_ended": LONG,
        "bytes_written": LONG,
        "dollars": DOUBLE,
        "dollars_per_million_jobs": DOUBLE,
    },
)

SLO: Final = _table(
    {
        "date": DATE,
        "tenant": STRING,
        "queue": STRING,
        "type": STRING,
        "wait_seconds_max": DOUBLE,
        "run_seconds_max": DOUBLE,
        "success_target": DOUBLE,
    },
    {
        "jobs": LONG,
        "succeeded": LONG,
        "within_wait": LONG,
        "within_run": LONG,
        "within_both": LONG,
        "met": BOOLEAN,
    },
)
"""Jobs that ended, cancelled ones aside, under the objectives that they were held to.

`within_both` counts those that succeeded and waited and ran no longer than they may; `met` says
whether their share reaches `success_target`.
"""
