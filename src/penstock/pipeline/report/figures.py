"""The numbers and series of a report, from rows alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final, Generic, TypeVar

from msgspec import Struct

from penstock.pipeline.report import formats
from penstock.pipeline.report.buckets import Bucket, bucket_for
from penstock.pipeline.report.rows import (
    CostHour,
    Failure,
    HourCount,
    Kind,
    Moment,
    ObjectiveDay,
    Rows,
    Traffic,
    WorkerHour,
)

Value = TypeVar("Value")
Row = TypeVar("Row")

PER_MILLION: Final = 1_000_000


class Series(Struct, Generic[Value], frozen=True):
    """Values over time, one for each bucket, without holes."""

    bucket: Bucket
    starts: tuple[datetime, ...] = ()
    values: tuple[Value, ...] = ()


class Heat(Struct, frozen=True):
    """Completed jobs by day and hour; `None` is an hour outside the report."""

    days: tuple[date, ...] = ()
    counts: tuple[tuple[int | None, ...], ...] = ()


class Worker(Struct, frozen=True, kw_only=True):
    name: str
    attempts: int
    completed: int
    failed: int
    busy_seconds: float
    present_seconds: float
    """Between its first and its last event of each hour."""

    @property
    def jobs_at_once(self) -> float:
        return share(self.busy_seconds, self.present_seconds) or 0.0


class Cost(Struct, frozen=True, kw_only=True):
    put_requests: int
    bytes_written: int
    jobs_ended: int
    dollars: float
    dollars_per_million: float | None
    over_time: Series[float]


class Objective(Struct, frozen=True, kw_only=True):
    """How many jobs met their objectives; without queue and type: all jobs."""

    queue: str = ""
    type: str = ""
    wait_seconds_max: float = 0.0
    run_seconds_max: float = 0.0
    success_target: float = 0.0
    """What the latest day was held to; each day is judged by its own."""
    jobs: int = 0
    succeeded: int = 0
    within_wait: int = 0
    within_run: int = 0
    within_both: int = 0


class Figures(Struct, frozen=True, kw_only=True):
    """Everything that a report says."""

    first: datetime | None
    until: datetime | None
    total: Traffic
    over_time: Series[Traffic]
    kinds: tuple[Kind, ...]
    heat: Heat
    failures: tuple[Failure, ...]
    workers: tuple[Worker, ...]
    jobs_at_once: Series[float]
    cost: Cost | None
    objective: Objective | None
    objectives: tuple[Objective, ...]
    attainment: Series[float | None]

    @property
    def period(self) -> str:
        if self.first is None or self.until is None:
            return "The tables are empty: nothing has happened in this time, or not been read yet."
        return (
            f"{formats.minute(self.first)} to {formats.minute(self.until)} UTC: "
            f"{formats.span(self.until - self.first)}, by the {self.over_time.bucket}."
        )

    @property
    def success(self) -> float | None:
        """Of the jobs that ended by themselves."""
        return share(self.total.completed, self.total.completed + self.total.failed)


def figures(rows: Rows, bucket: Bucket) -> Figures:
    """`bucket` is what the moments among the rows were added up by."""
    first, until = _span(rows, bucket)
    over_time = _traffic(rows.moments, bucket, until)
    return Figures(
        first=first,
        until=until,
        total=rows.total,
        over_time=over_time,
        kinds=tuple(sorted(rows.kinds, key=lambda kind: (-kind.ended, kind.queue, kind.type))),
        heat=_heat(rows.hours),
        failures=tuple(sorted(rows.failures, key=lambda each: (-each.count, each.fingerprint))),
        workers=_workers(rows.workers),
        jobs_at_once=_jobs_at_once(rows.workers, first, until),
        cost=_cost(rows.cost),
        objective=_met(rows.objectives) if rows.objectives else None,
        objectives=_by_kind(rows.objectives),
        attainment=_attainment(rows.objectives),
    )


def share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _span(rows: Rows, bucket: Bucket) -> tuple[datetime | None, datetime | None]:
    starts = [moment.at for moment in rows.moments]
    return (min(starts), max(starts) + bucket.length) if starts else (None, None)


def _traffic(moments: Sequence[Moment], bucket: Bucket, until: datetime | None) -> Series[Traffic]:
    at = {moment.at: moment for moment in moments}
    if not at or until is None:
        return Series(bucket)
    starts = tuple(bucket.starts(min(at), until))
    return Series(bucket, starts, tuple(at.get(start, Traffic()) for start in starts))


def _heat(hours: Sequence[HourCount]) -> Heat:
    if not hours:
        return Heat()
    counts = {hour.at: hour.completed for hour in hours}
    first, last = min(counts), max(counts)
    days = tuple(Bucket.DAY.starts(first, last + Bucket.HOUR.length))
    return Heat(
        tuple(day.date() for day in days),
        tuple(
            tuple(
                counts.get(at, 0) if first <= at <= last else None
                for at in Bucket.HOUR.starts(day, day + Bucket.DAY.length)
            )
            for day in days
        ),
    )


def _workers(hours: Sequence[WorkerHour]) -> tuple[Worker, ...]:
    workers = [
        Worker(
            name=name,
            attempts=sum(hour.attempts for hour in of_one),
            completed=sum(hour.completed for hour in of_one),
            failed=sum(hour.failed for hour in of_one),
            busy_seconds=sum(hour.busy_seconds for hour in of_one),
            present_seconds=sum((hour.last_at - hour.first_at).total_seconds() for hour in of_one),
        )
        for name, of_one in _grouped(hours, lambda hour: hour.worker).items()
    ]
    return tuple(sorted(workers, key=lambda worker: (-worker.busy_seconds, worker.name)))


def _jobs_at_once(
    hours: Sequence[WorkerHour], first: datetime | None, until: datetime | None
) -> Series[float]:
    """Busy seconds for each second of the bucket that lies within the report."""
    if first is None or until is None or not hours:
        return Series(Bucket.HOUR)
    bucket = bucket_for(until - first, finest=Bucket.HOUR)
    sums = _sums(hours, lambda hour: bucket.start_of(hour.at), lambda hour: hour.busy_seconds)
    starts = tuple(bucket.starts(first, until))

    def covered(start: datetime) -> float:
        return (min(start + bucket.length, until) - max(start, first)).total_seconds()

    return Series(bucket, starts, tuple(sums[start] / covered(start) for start in starts))


def _cost(hours: Sequence[CostHour]) -> Cost | None:
    if not hours:
        return None
    first, last = min(hour.at for hour in hours), max(hour.at for hour in hours)
    bucket = bucket_for(last - first, finest=Bucket.HOUR)
    sums = _sums(hours, lambda hour: bucket.start_of(hour.at), lambda hour: hour.dollars)
    starts = tuple(bucket.starts(first, last + timedelta(hours=1)))
    dollars = sum(hour.dollars for hour in hours)
    per_job = share(dollars, sum(hour.jobs_ended for hour in hours))
    return Cost(
        put_requests=sum(hour.put_requests for hour in hours),
        bytes_written=sum(hour.bytes_written for hour in hours),
        jobs_ended=sum(hour.jobs_ended for hour in hours),
        dollars=dollars,
        dollars_per_million=None if per_job is None else per_job * PER_MILLION,
        over_time=Series(bucket, starts, tuple(sums[start] for start in starts)),
    )


def _met(days: Iterable[ObjectiveDay], queue: str = "", type: str = "") -> Objective:
    days = sorted(days, key=lambda day: day.date)
    if not days:
        return Objective(queue=queue, type=type)
    return Objective(
        queue=queue,
        type=type,
        wait_seconds_max=days[-1].wait_seconds_max,
        run_seconds_max=days[-1].run_seconds_max,
        success_target=days[-1].success_target,
        jobs=sum(day.jobs for day in days),
        succeeded=sum(day.succeeded for day in days),
        within_wait=sum(day.within_wait for day in days),
        within_run=sum(day.within_run for day in days),
        within_both=sum(day.within_both for day in days),
    )


def _by_kind(days: Sequence[ObjectiveDay]) -> tuple[Objective, ...]:
    kinds = _grouped(days, lambda day: (day.queue, day.type))
    met = [_met(of_one, queue, type) for (queue, type), of_one in kinds.items()]
    # The worst first: that is what somebody has to look at.
    return tuple(sorted(met, key=lambda each: (each.within_both / (each.jobs or 1), -each.jobs)))


def _attainment(days: Sequence[ObjectiveDay]) -> Series[float | None]:
    if not days:
        return Series(Bucket.DAY)
    by_date = _grouped(days, lambda day: day.date)
    first, last = min(by_date), max(by_date)
    dates = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    met = [_met(by_date.get(each, ())) for each in dates]
    return Series(
        Bucket.DAY,
        tuple(datetime(each.year, each.month, each.day, tzinfo=UTC) for each in dates),
        tuple(share(each.within_both, each.jobs) for each in met),
    )


def _grouped(rows: Iterable[Row], key: Callable[[Row], Value]) -> dict[Value, list[Row]]:
    groups: dict[Value, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def _sums(
    rows: Iterable[Row], key: Callable[[Row], datetime], amount: Callable[[Row], float]
) -> dict[datetime, float]:
    sums: dict[datetime, float] = defaultdict(float)
    for row in rows:
        sums[key(row)] += amount(row)
    return sums
