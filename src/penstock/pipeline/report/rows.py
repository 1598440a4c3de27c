"""What is read from the gold tables: small rows, already added up by Spark. Times are in UTC."""

from __future__ import annotations

from datetime import date, datetime

from msgspec import Struct


class Quantiles(Struct, frozen=True):
    """Of durations in seconds; from merged sketches, so within the rank error of those."""

    p50: float
    p95: float
    p99: float


class Traffic(Struct, frozen=True, kw_only=True):
    enqueued: int = 0
    started: int = 0
    completed: int = 0
    failed: int = 0
    retried: int = 0
    expired: int = 0
    cancelled: int = 0
    wait: Quantiles | None = None
    run: Quantiles | None = None

    @property
    def ended(self) -> int:
        return self.completed + self.failed + self.cancelled


class Moment(Traffic, frozen=True, kw_only=True):
    """The traffic of one bucket of time."""

    at: datetime


class Kind(Traffic, frozen=True, kw_only=True):
    """The traffic of one kind of jobs."""

    queue: str
    type: str


class HourCount(Struct, frozen=True):
    at: datetime
    completed: int


class Failure(Struct, frozen=True, kw_only=True):
    """Failed attempts that have a fingerprint in common."""

    kind: str
    fingerprint: str
    count: int
    types: tuple[str, ...]
    first_at: datetime
    last_at: datetime
    example: str
    example_id: str


class WorkerHour(Struct, frozen=True, kw_only=True):
    at: datetime
    worker: str
    attempts: int
    completed: int
    failed: int
    busy_seconds: float
    first_at: datetime
    last_at: datetime


class CostHour(Struct, frozen=True, kw_only=True):
    at: datetime
    put_requests: int
    bytes_written: int
    jobs_ended: int
    dollars: float


class ObjectiveDay(Struct, frozen=True, kw_only=True):
    """How many jobs of one kind met their objectives on one day."""

    date: date
    queue: str
    type: str
    wait_seconds_max: float
    run_seconds_max: float
    success_target: float
    jobs: int
    succeeded: int
    within_wait: int
    within_run: int
    within_both: int


class Rows(Struct, frozen=True, kw_only=True):
    """Everything that a report is made of; an empty warehouse has the default."""

    total: Traffic = Traffic()
    moments: tuple[Moment, ...] = ()
    kinds: tuple[Kind, ...] = ()
    hours: tuple[HourCount, ...] = ()
    failures: tuple[Failure, ...] = ()
    workers: tuple[WorkerHour, ...] = ()
    cost: tuple[CostHour, ...] = ()
    objectives: tuple[ObjectiveDay, ...] = ()
