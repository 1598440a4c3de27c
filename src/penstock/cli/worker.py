"""`penstock worker`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import typer

from penstock.cli.loading import load_app
from penstock.cli.logs import start_logging
from penstock.cli.opening import run
from penstock.cli.options import Json, Tenant
from penstock.cli.reloading import reload_forever
from penstock.cli.working import work
from penstock.errors import InvalidInput
from penstock.worker.options import AUTO, CONCURRENCY, PROCESSES, WorkerOptions


class Level(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"


Concurrency = Annotated[
    str,
    typer.Option(
        "--concurrency", "-c", metavar="N|auto", help="Jobs at once; auto finds out how many."
    ),
]
ConcurrencyMin = Annotated[int, typer.Option("--concurrency-min", min=1, help="The floor of auto.")]
ConcurrencyMax = Annotated[
    int, typer.Option("--concurrency-max", min=1, help="The ceiling of auto.")
]
Processes = Annotated[int, typer.Option("--processes", min=1, help="For tasks with cpu=True.")]


def command(
    place: Annotated[
        str, typer.Argument(metavar="MODULE:APP", help="Such as tasks:app, in tasks.py here.")
    ],
    queue: Annotated[
        list[str] | None, typer.Option("--queue", "-q", help="Only this queue; may be repeated.")
    ] = None,
    concurrency: Concurrency = str(CONCURRENCY),
    concurrency_min: ConcurrencyMin = 8,
    concurrency_max: ConcurrencyMax = 1_024,
    processes: Processes = PROCESSES,
    lease_seconds: Annotated[
        float, typer.Option(help="How long a dead worker is waited for.")
    ] = 30,
    grace: Annotated[
        float, typer.Option("--grace", metavar="SECONDS", help="To finish in when stopped.")
    ] = 30,
    burst: Annotated[bool, typer.Option("--burst", help="End when nothing is due.")] = False,
    jobs_max: Annotated[
        int | None, typer.Option("--jobs-max", min=1, help="End after so many jobs.")
    ] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="Start again when a .py file here changes.")
    ] = False,
    monitor: Annotated[
        bool, typer.Option("--monitor/--no-monitor", help="Take a turn at the housekeeping.")
    ] = True,
    name: Annotated[str | None, typer.Option(help="Without: host and process id.")] = None,
    log_level: Annotated[Level, typer.Option(help="What to log on stderr.")] = Level.INFO,
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
    app = load_app(place)
    if url is not None or tenant is not None:
        app.relocate(url, **({} if tenant is None else {"tenant": tenant}))
    options = WorkerOptions(
        queues=tuple(queue) if queue else None,
        concurrency=_number_or_auto(concurrency),
        concurrency_min=concurrency_min,
        concurrency_max=concurrency_max,
        processes=processes,
        lease_seconds=lease_seconds,
        grace_seconds=grace,
        burst=burst,
        jobs_max=jobs_max,
        monitor=monitor,
        name=name,
    )
    run(work(place, app, options, json=json))


def _number_or_auto(said: str) -> int | Literal["auto"]:
    if said == AUTO:
        return AUTO
    if said.isascii() and said.isdigit():
        return int(said)
    raise InvalidInput(f"--concurrency {said}: a number from 1 on, or auto")
