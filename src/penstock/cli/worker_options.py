"""What can be said to `penstock worker`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.logs import Level
from penstock.cli.options import above_zero, finite
from penstock.maintenance.monitor import MonitorOptions
from penstock.worker.options import AUTO


class Unknown(StrEnum):
    WAIT = "wait"
    FAIL = "fail"


def number_or_auto(said: str) -> str:
    if said != AUTO and not (said.isascii() and said.isdigit() and int(said) >= 1):
        raise typer.BadParameter(f"{said!r} is neither a number from 1 on nor auto")
    return said


Place = Annotated[
    str, typer.Argument(metavar="MODULE:APP", help="Such as tasks:app, in tasks.py here.")
]
Queues = Annotated[
    list[str] | None,
    typer.Option(
        "--queue", "-q", envvar="PENSTOCK_WORKER_QUEUE", help="Only this queue; may be repeated."
    ),
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--types",
        metavar="TYPE",
        envvar="PENSTOCK_WORKER_TYPES",
        help="Only jobs of this type; may be repeated. Else: all tasks.",
    ),
]
UnknownTypes = Annotated[
    Unknown,
    typer.Option(
        "--unknown",
        envvar="PENSTOCK_WORKER_UNKNOWN",
        help="Jobs that the app has no task for: wait for others, or fail.",
    ),
]
Concurrency = Annotated[
    str,
    typer.Option(
        "--concurrency",
        "-c",
        metavar="N|auto",
        callback=number_or_auto,
        envvar="PENSTOCK_WORKER_CONCURRENCY",
        help="Jobs at once; auto finds out how many.",
    ),
]
ConcurrencyMin = Annotated[
    int,
    typer.Option(
        "--concurrency-min",
        min=1,
        envvar="PENSTOCK_WORKER_CONCURRENCY_MIN",
        help="The floor of auto.",
    ),
]
ConcurrencyMax = Annotated[
    int,
    typer.Option(
        "--concurrency-max",
        min=1,
        envvar="PENSTOCK_WORKER_CONCURRENCY_MAX",
        help="The ceiling of auto.",
    ),
]
Processes = Annotated[
    int,
    typer.Option(
        "--processes", min=1, envvar="PENSTOCK_WORKER_PROCESSES", help="For tasks with cpu=True."
    ),
]
LeaseSeconds = Annotated[
    float,
    typer.Option(
        envvar="PENSTOCK_WORKER_LEASE_SECONDS",
        callback=above_zero,
        help="How long a dead worker is waited for.",
    ),
]
Grace = Annotated[
    float,
    typer.Option(
        "--grace",
        metavar="SECONDS",
        min=0.0,
        callback=finite,
        envvar="PENSTOCK_WORKER_GRACE",
        help="To finish in when stopped.",
    ),
]
Burst = Annotated[
    bool,
    typer.Option(
        "--burst", envvar="PENSTOCK_WORKER_BURST", help="End when nothing that it serves is due."
    ),
]
JobsMax = Annotated[
    int | None,
    typer.Option(
        "--jobs-max", min=1, envvar="PENSTOCK_WORKER_JOBS_MAX", help="End after so many jobs."
    ),
]
Recycle = Annotated[
    int | None,
    typer.Option(
        "--recycle",
        metavar="N",
        min=1,
        envvar="PENSTOCK_WORKER_RECYCLE",
        help="Start again once so many handlers would not stop.",
    ),
]
Reload = Annotated[bool, typer.Option("--reload", help="Start again when a .py file here changes.")]
Monitor = Annotated[
    bool,
    typer.Option(
        "--monitor/--no-monitor",
        envvar="PENSTOCK_WORKER_MONITOR",
        help="Take a turn at the housekeeping.",
    ),
]
Name = Annotated[
    str | None, typer.Option(envvar="PENSTOCK_WORKER_NAME", help="Without: host and process id.")
]
LogLevel = Annotated[
    Level,
    typer.Option(case_sensitive=False, envvar="PENSTOCK_LOG_LEVEL", help="What to log on stderr."),
]
LogConfig = Annotated[
    bool,
    typer.Option(
        "--log-config/--no-log-config",
        envvar="PENSTOCK_LOG_CONFIG",
        help="Set logging up; without, that is the app's own business.",
    ),
]
MonitorRound = Annotated[
    float,
    typer.Option(
        "--monitor-round",
        metavar="SECONDS",
        envvar="PENSTOCK_MONITOR_ROUND",
        callback=above_zero,
        help="How often dead leases and workers are looked for.",
    ),
]
MonitorRepair = Annotated[
    float,
    typer.Option(
        "--monitor-repair",
        metavar="SECONDS",
        envvar="PENSTOCK_MONITOR_REPAIR",
        callback=above_zero,
        help="How often indexes are compared with the jobs.",
    ),
]
MonitorVacuum = Annotated[
    float,
    typer.Option(
        "--monitor-vacuum",
        metavar="SECONDS",
        envvar="PENSTOCK_MONITOR_VACUUM",
        callback=above_zero,
        help="How often the log is vacuumed.",
    ),
]
MonitorForget = Annotated[
    float,
    typer.Option(
        "--monitor-forget",
        metavar="SECONDS",
        envvar="PENSTOCK_MONITOR_FORGET",
        callback=above_zero,
        help="How long a dead worker stays in the list.",
    ),
]
ROUND_SECONDS = MonitorOptions().round_seconds
REPAIR_SECONDS = MonitorOptions().repair_seconds
VACUUM_SECONDS = MonitorOptions().vacuum_seconds
FORGET_SECONDS = MonitorOptions().forget_seconds
Health = Annotated[
    int | None,
    typer.Option(
        "--health",
        metavar="PORT",
        min=0,
        max=65_535,
        envvar="PENSTOCK_WORKER_HEALTH",
        help="Answer /live and /ready over HTTP there.",
    ),
]
HealthHost = Annotated[
    str,
    typer.Option(
        "--health-host",
        metavar="HOST",
        envvar="PENSTOCK_WORKER_HEALTH_HOST",
        help="For --health; 0.0.0.0 lets others ask.",
    ),
]
OnSpark = Annotated[bool, typer.Option("--on-spark", help="Inside the tasks of a Spark job.")]
Master = Annotated[
    str, typer.Option("--master", metavar="MASTER", help="Spark's; with --on-spark.")
]
Tasks = Annotated[
    int | None, typer.Option("--tasks", min=1, help="Workers at most; with --on-spark.")
]
PyFiles = Annotated[
    list[str] | None,
    typer.Option("--py-files", metavar="FILE", help="To send to executors first; repeatable."),
]
Shards = Annotated[
    str | None,
    typer.Option(
        "--shards", metavar="0-f", help="Layout tasks: claim only from these, such as 0-7 or 0,4,c."
    ),
]
Url = Annotated[str | None, typer.Option("--url", "-u", help="In place of the app's own address.")]


def monitoring(
    round_seconds: float, repair_seconds: float, vacuum_seconds: float, forget_seconds: float
) -> MonitorOptions:
    return MonitorOptions(
        round_seconds=round_seconds,
        repair_seconds=repair_seconds,
        vacuum_seconds=vacuum_seconds,
        forget_seconds=forget_seconds,
    )
