"""A queue's life that never was: the same every time, of any length."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from penstock.pipeline.report.buckets import Bucket
from penstock.pipeline.report.rows import (
    CostHour,
    Failure,
    HourCount,
    Kind,
    Moment,
    ObjectiveDay,
    Quantiles,
    Rows,
    Traffic,
    WorkerHour,
)

START = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
HOSTILE = "<script>alert('x')</script> & \"$name\" \u202ereversed\x00\x1b[31m"

ERRORS = (
    ("ConnectTimeout", "timed out after 5 s: smtp.example.org:587", ("send_email",)),
    ("ValueError", "cannot identify image file 'upload-81723'", ("thumbnail", "transcode")),
    ("expired", "the lease ran out", ("bill", "export_csv", "index", "thumbnail", "transcode")),
    ("UnicodeDecodeError", "'utf-8' codec can't decode byte 0xe4 in position 1031", ("bill",)),
)


def sample(bucket: Bucket, buckets: int) -> Rows:
    first = bucket.start_of(START)
    until = first + bucket.length * buckets
    moments = tuple(_moment(number, at) for number, at in enumerate(bucket.starts(first, until)))
    hours = tuple(Bucket.HOUR.starts(first, until))
    days = tuple(Bucket.DAY.starts(first, until))
    return Rows(
        total=Traffic(
            enqueued=sum(moment.enqueued for moment in moments),
            completed=sum(moment.completed for moment in moments),
            failed=sum(moment.failed for moment in moments),
            retried=sum(moment.retried for moment in moments),
            wait=Quantiles(0.012, 0.31, 1.9),
            run=Quantiles(0.045, 0.38, 2.2),
        ),
        moments=moments,
        kinds=tuple(_kind(number) for number in range(6)),
        hours=tuple(HourCount(at, _wave(at.hour, 24) * 40 + at.day % 5 * 300) for at in hours),
        failures=_failures(first, until),
        workers=tuple(_worker_hour(at, number) for at in hours for number in range(3)),
        cost=tuple(_cost_hour(at) for at in hours),
        objectives=tuple(_objective_day(at, number) for at in days for number in range(3)),
    )


def _wave(number: int, period: int) -> int:
    return round(60 + 50 * math.sin(2 * math.pi * number / period - 1.9))


def _moment(number: int, at: datetime) -> Moment:
    completed = _wave(number, 60) * 40 + number * 7919 % 311
    storm = 60 if number % 97 in range(40, 46) else 0
    slow = 1 + (number * 31 % 17) / 9 + storm / 10
    return Moment(
        at=at,
        enqueued=completed + number * 6007 % 401,
        started=completed,
        completed=completed,
        failed=number * 13 % 7 + storm // 4,
        retried=number * 29 % 23 + storm * 2,
        wait=Quantiles(0.012 * slow, 0.2 * slow, 1.1 * slow**2),
        run=Quantiles(0.045, 0.3 + 0.05 * slow, 1.4 + 0.3 * slow),
    )


def _kind(number: int) -> Kind:
    names = ("thumbnail", "send_email", "transcode", "index_document", "export_csv", "bill")
    queues = ("images", "default", "media", "search", "default", "money")
    return Kind(
        queue=queues[number],
        type=names[number],
        enqueued=410_000 // (number + 1),
        completed=409_000 // (number + 1),
        failed=number * 37 % 50,
        retried=number * 211,
        wait=Quantiles(0.01 * (number + 1), 0.2 * (number + 1), 2.0),
        run=Quantiles(0.03 * 3**number, 0.2 * 3**number, 1.1 * 3**number),
    )


def _failures(first: datetime, until: datetime) -> tuple[Failure, ...]:
    return tuple(
        Failure(
            kind=kind,
            fingerprint=f"{number + 1}f0e9d8c7b6a594{number}",
            count=4_181 // 3**number,
            types=types,
            first_at=first + timedelta(seconds=7 * number),
            last_at=until - timedelta(seconds=31 * (number + 1)),
            example=example,
            example_id=f"0198f3c2-7d1e-7c40-b1aa-00000000000{number}",
        )
        for number, (kind, example, types) in enumerate(ERRORS)
    )


def _worker_hour(at: datetime, number: int) -> WorkerHour:
    return WorkerHour(
        at=at,
        worker=f"node-{number + 1}:4{number}17",
        attempts=1_000 + number * 100,
        completed=990 + number * 100,
        failed=number,
        busy_seconds=_wave(at.hour, 24) * (40.0 + number * 10),
        first_at=at + timedelta(seconds=3),
        last_at=at + timedelta(seconds=3_590),
    )


def _cost_hour(at: datetime) -> CostHour:
    commits = _wave(at.hour, 24) * 12
    return CostHour(
        at=at,
        put_requests=commits,
        bytes_written=commits * 9_000,
        jobs_ended=commits * 30,
        dollars=commits * 0.000005,
    )


def _objective_day(at: datetime, number: int) -> ObjectiveDay:
    queue, type = (("images", "thumbnail"), ("default", "send_email"), ("media", "transcode"))[
        number
    ]
    missed = at.day * (number + 1) * 37 % 400
    return ObjectiveDay(
        date=at.date(),
        queue=queue,
        type=type,
        wait_seconds_max=60.0,
        run_seconds_max=300.0,
        success_target=0.995,
        jobs=40_000,
        succeeded=40_000 - missed // 9,
        within_wait=40_000 - missed // 2,
        within_run=40_000 - missed // 3,
        within_both=40_000 - missed,
    )
