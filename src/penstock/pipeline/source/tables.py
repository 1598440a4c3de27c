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
from pyspark.sql.types import StructType

from penstock.kernel.events import EVENTS_PER_COMMIT
from penstock.kernel.job import AttemptError, Job, State
from penstock.kernel.retry import DEFAULT_RETRY
from penstock.pipeline.source.columns import (
    Array,
    Builder,
    Columns,
    Row,
    Rule,
    error_lists,
    json_texts,
)
from penstock.pipeline.source.rows import event_of

Fields = Mapping[str, frozenset[str]]
"""The fields of events that a column is made of, where it is not the one of its name."""

JOB_ENDS: Final = frozenset({"completed", "failed", "cancelled"})
ATTEMPT_ENDS: Final = JOB_ENDS | {"retried", "expired", "released", "snoozed"}

EVENT_FIELDS: Final[Fields] = {"commit": frozenset({"position"}), "event": frozenset()}
ATTEMPT_FIELDS: Final[Fields] = {
    "commit": frozenset({"position"}),
    "outcome": frozenset(),
    "ended_at": frozenset({"at"}),
    "wait_seconds": frozenset({"due_at", "started_at"}),
    "run_seconds": frozenset({"at", "started_at"}),
}
ENDING_FIELDS: Final[Fields] = {
    "commit": frozenset({"position"}),
    "state": frozenset(),
    "run_at": frozenset({"due_at"}),
    "ended_at": frozenset({"at"}),
    **dict.fromkeys(
        ("kind", "error", "errors"), frozenset({"errors", "attempt", "at", "kind", "error"})
    ),
}


def fields_of(columns: Iterable[str], fields: Fields) -> set[str]:
    return {field for column in columns for field in fields.get(column, {column})}


def events_builder(schema: StructType) -> Builder:
    return Builder(schema, {"commit": _commits, "event": _kind})


def attempts_builder(schema: StructType) -> Builder:
    return Builder(
        schema,
        {
            "commit": _commits,
            "outcome": _kind,
            "ended_at": lambda columns: columns.timestamps("at"),
            "wait_seconds": partial(_seconds, "due_at", "started_at"),
            "run_seconds": partial(_seconds, "started_at", "at"),
        },
    )


def ended_an_attempt(row: Row) -> bool:
    """Whether one of `ATTEMPT_ENDS` did: a job that was cancelled while it waited was in none.

    Such a job still has the start of the attempt before, and is due only after that.
    """
    return row.started_at is not None and (
        event_of(row) != "cancelled" or row.started_at >= row.due_at
    )


def endings_builder(schema: StructType) -> Builder:
    """Jobs as the events tell them that ended them; what an ending does not carry is null."""
    return Builder(
        schema,
        {
            "commit": _commits,
            "state": _kind,
            "run_at": lambda columns: columns.timestamps("due_at"),
            "ended_at": lambda columns: columns.timestamps("at"),
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
                [None if job.retry == DEFAULT_RETRY else job.retry for job in columns.rows]
            ),
            **_error_rules(lambda job: job.errors),
        },
    )


def _commits(columns: Columns) -> Array:
    return pc.divide(columns.array("position", pa.int64()), EVENTS_PER_COMMIT)


def _kind(columns: Columns) -> Array:
    return columns.constant(columns.kind, pa.string())


def _seconds(start: str, end: str, columns: Columns) -> Array:
    return pc.subtract(columns.numbers(end), columns.numbers(start))


def _position(job: Job) -> int:
    return job.trail[-1] if job.trail else job.life


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
    errors: tuple[AttemptError, ...] = row.errors
    if event_of(row) != State.FAILED:
        return errors
    return (*errors, AttemptError(row.attempt, row.at, row.kind, row.error))
