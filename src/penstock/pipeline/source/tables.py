"""What the columns of each table are made of; everything here is a function of rows alone.

Rows of `events`, `attempts` and of endings are decoded events, rows of `commits` are headers, rows
of live jobs are jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from penstock.kernel.events import EVENTS_PER_COMMIT
from penstock.kernel.job import AttemptError, Job, State
from penstock.kernel.retry import DEFAULT_RETRY
from penstock.pipeline.schemas import EVENTS, JOBS
from penstock.pipeline.source.columns import (
    Array,
    Builder,
    Columns,
    Rule,
    error_lists,
    json_texts,
    timestamps,
)
from penstock.pipeline.source.rows import DEFAULTS, Row

Fields = Mapping[str, frozenset[str]]
"""The fields of events that a column is made of, where it is not the one of its name."""

JOB_ENDS: Final = frozenset({"completed", "failed", "cancelled"})
ATTEMPT_ENDS: Final = JOB_ENDS | {"retried", "expired", "released", "snoozed"}

EVENT_FIELDS: Final[Fields] = {"commit": frozenset({"position"})}
ATTEMPT_FIELDS: Final[Fields] = {
    "commit": frozenset({"position"}),
    "outcome": frozenset({"event"}),
    "ended_at": frozenset({"at"}),
    "wait_seconds": frozenset({"due_at", "started_at"}),
    "run_seconds": frozenset({"at", "started_at"}),
}
_NOT_IN_AN_ENDING: Final = frozenset(
    {
        "archived_at",
        "codec",
        "key_until",
        "lease_until",
        "payload",
        "payload_key",
        "progress",
        "retry",
        "timeout_seconds",
    }
)
ENDING_FIELDS: Final[Fields] = {
    "commit": frozenset({"position"}),
    "state": frozenset({"event"}),
    "run_at": frozenset({"due_at"}),
    "ended_at": frozenset({"at"}),
    **dict.fromkeys(
        ("kind", "error", "errors"),
        frozenset({"event", "errors", "attempt", "at", "kind", "error"}),
    ),
    **dict.fromkeys(_NOT_IN_AN_ENDING, frozenset()),
}


def fields_of(columns: Iterable[str], fields: Fields) -> set[str]:
    return {field for column in columns for field in fields.get(column, {column})}


def events_builder(schema: StructType) -> Builder:
    return Builder(schema, {**_FILLED, "commit": _commits})


def attempts_builder(schema: StructType) -> Builder:
    return Builder(
        schema,
        {
            "commit": _commits,
            "outcome": lambda columns: columns.array("event", pa.string()),
            "ended_at": lambda columns: timestamps(columns.numbers("at")),
            "wait_seconds": partial(_seconds, "due_at", "started_at"),
            "run_seconds": partial(_seconds, "started_at", "at"),
        },
    )


def ended_an_attempt(row: Row) -> bool:
    """Whether one of `ATTEMPT_ENDS` did: a job that was cancelled while it waited was in none.

    Such a job still has the start of the attempt before, and is due only after that.
    """
    return row.started_at is not None and (row.event != "cancelled" or row.started_at >= row.due_at)


def endings_builder(schema: StructType) -> Builder:
    """Jobs as the events tell them that ended them."""
    rules: dict[str, Rule] = {
        name: partial(_nothing, to_arrow_type(JOBS[name].dataType, timezone="UTC"))
        for name in _NOT_IN_AN_ENDING
    }
    return Builder(
        schema,
        {
            **_FILLED,
            **rules,
            "commit": _commits,
            "state": lambda columns: columns.array("event", pa.string()),
            "run_at": lambda columns: timestamps(columns.numbers("due_at")),
            "ended_at": lambda columns: timestamps(columns.numbers("at")),
            **_error_rules(_errors_of_ending),
        },
    )


def jobs_builder(schema: StructType) -> Builder:
    """Jobs as the queue has them."""
    return Builder(
        schema,
        {
            "position": lambda columns: pa.array(map(_position, columns.rows), pa.int64()),
            "commit": lambda columns: pa.array(
                [_position(job) // EVENTS_PER_COMMIT for job in columns.rows], pa.int64()
            ),
            "state": lambda columns: pa.array([job.state.value for job in columns.rows]),
            "retry": lambda columns: json_texts(
                [None if value == DEFAULT_RETRY else value for value in columns.values("retry")]
            ),
            **_error_rules(lambda job: job.errors),
        },
    )


def _commits(columns: Columns) -> Array:
    return pc.divide(columns.array("position", pa.int64()), EVENTS_PER_COMMIT)


def _seconds(start: str, end: str, columns: Columns) -> Array:
    return pc.subtract(columns.numbers(end), columns.numbers(start))


def _nothing(type: Array, columns: Columns) -> Array:
    return pa.nulls(len(columns.rows), type)


def _position(job: Job) -> int:
    return job.trail[-1] if job.trail else job.life


def _filled(name: str, type: Array, columns: Columns) -> Array:
    """A column with the values that the wire leaves out, in the events that have the field."""
    default = DEFAULTS[name]
    events = pa.array(sorted(default.events))
    lacking = pc.is_in(columns.array("event", pa.string()), value_set=events)
    values = columns.array(name, type)
    return pc.if_else(pc.and_(lacking, pc.is_null(values)), pa.scalar(default.value, type), values)


def _filled_errors(columns: Columns) -> Array:
    events = DEFAULTS["errors"].events
    return error_lists(
        [
            () if value is None and event in events else value
            for value, event in zip(columns.values("errors"), columns.values("event"), strict=True)
        ]
    )


_FILLED: Final[Mapping[str, Rule]] = {
    **{
        name: partial(_filled, name, to_arrow_type(EVENTS[name].dataType))
        for name in DEFAULTS.keys() & set(EVENTS.names) - {"errors"}
    },
    "errors": _filled_errors,
}


def _error_rules(errors_of: Callable[[Row], tuple[AttemptError, ...]]) -> dict[str, Rule]:
    def last(attribute: str, columns: Columns) -> Array:
        lists = map(errors_of, columns.rows)
        return pa.array(
            [getattr(errors[-1], attribute) if errors else None for errors in lists], pa.string()
        )

    return {
        "kind": partial(last, "kind"),
        "error": partial(last, "message"),
        "errors": lambda columns: error_lists([*map(errors_of, columns.rows)]),
    }


def _errors_of_ending(row: Row) -> tuple[AttemptError, ...]:
    errors: tuple[AttemptError, ...] = row.errors or ()
    if row.event != State.FAILED:
        return errors
    return (*errors, AttemptError(row.attempt, row.at, row.kind, row.error))
