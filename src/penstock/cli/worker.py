"""`penstock worker`."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias

import typer

from penstock.app.loading import load_app
from penstock.cli.logs import start_logging
from penstock.cli.opening import run
from penstock.cli.options import Json, Tenant
from penstock.cli.reloading import reload_forever
from penstock.cli.working import work
from penstock.worker.options import WorkerOptions


class Level(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"


CORES: Final = os.cpu_count() or 1

Queues: TypeAlias = Annotated[
    list[str] | None, typer.Option("--queue", "-q", help="Only this queue; may be repeated.")
]
Concurrency: TypeAlias = Annotated[
    int, typer.Option("--concurrency", "-c", min=1, help="Jobs at once.")
]
Processes: TypeAlias = Annotated[
    int, typer.Option("--processes", min=1, help="For tasks with cpu=True.")
]
Grace: TypeAlias = Annotated[
    float, typer.Option("--grace", metavar="SECONDS", help="To finish in when stopped.")
]
JobsMax: TypeAlias = Annotated[
    int | None, typer.Option("--jobs-max", min=1, help="End after so many jobs.")
]
Reload: TypeAlias = Annotated[
    bool, typer.Option("--reload", help="Start again when a .py file here changes.")
]
TakesTurns: TypeAlias = Annotated[
    bool, typer.Option("--monitor/--no-monitor", help="Take a turn at the housekeeping.")
]
OnSpark: TypeAlias = Annotated[
    bool, typer.Option("--on-spark", help="Inside the tasks of a Spark job.")
]
Master: TypeAlias = Annotated[
    str, typer.Option("--master", metavar="MASTER", help="Spark's; with --on-spark.")
]
Tasks: TypeAlias = Annotated[
    int | None, typer.Option("--tasks", min=1, help="Workers at most; with --on-spark.")
]
PyFiles: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--py-files", metavar="FILE", help="To send to executors first; repeatable."),
]


def command(
    place: Annotated[
        str, typer.Argument(metavar="MODULE:APP", help="Such as tasks:app, in tasks.py here.")
    ],
    queue: Queues = None,
    concurrency: Concurrency = 64,
    processes: Processes = CORES,
    lease_seconds: Annotated[
        float, typer.Option(help="How long a dead worker is waited for.")
    ] = 30,
    grace: Grace = 30,
    burst: Annotated[bool, typer.Option("--burst", help="End when nothing is due.")] = False,
    jobs_max: JobsMax = None,
    reload: Reload = False,
    monitor: TakesTurns = True,
    name: Annotated[str | None, typer.Option(help="Without: host and process id.")] = None,
    log_level: Annotated[Level, typer.Option(help="What to log on stderr.")] = Level.INFO,
    on_spark: OnSpark = False,
    master: Master = "local[*]",
    tasks: Tasks = None,
    py_files: PyFiles = None,
    url: Annotated[
        str | None, typer.Option("--url", "-u", help="In place of the app's own address.")
    ] = None,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """SIGTERM or ctrl-c drains: nothing new is claimed, what runs may finish within --grace, the
    rest is given back. A second signal gives back at once. Exit code 0 in all these cases, 1 if
    the queue can't be opened, 2 if the app can't be loaded.
    """
    start_logging(json=json, level=log_level.value)
    if reload:
        raise typer.Exit(run(reload_forever()))
    given: dict[str, Any] = {
        "queues": tuple(queue) if queue else None,
        "concurrency": concurrency,
        "lease_seconds": lease_seconds,
        "grace_seconds": grace,
        "burst": burst,
        "jobs_max": jobs_max,
        "monitor": monitor,
    }
    if on_spark:
        from penstock.cli.working_on_spark import work_on_spark

        work_on_spark(place, url, tenant, master, tasks, py_files or [], given, json=json)
        return
    app = load_app(place)
    if url is not None or tenant is not None:
        app.relocate(url, **({} if tenant is None else {"tenant": tenant}))
    options = WorkerOptions(processes=processes, name=name, **given)
    run(work(place, app, options, json=json))
