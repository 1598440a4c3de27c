"""What can be said to `penstock worker`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import typer

from penstock.errors import InvalidInput
from penstock.worker.options import AUTO


class Level(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"


Place = Annotated[
    str, typer.Argument(metavar="MODULE:APP", help="Such as tasks:app, in tasks.py here.")
]
Queues = Annotated[
    list[str] | None, typer.Option("--queue", "-q", help="Only this queue; may be repeated.")
]
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
LeaseSeconds = Annotated[float, typer.Option(help="How long a dead worker is waited for.")]
Grace = Annotated[
    float, typer.Option("--grace", metavar="SECONDS", help="To finish in when stopped.")
]
Burst = Annotated[bool, typer.Option("--burst", help="End when nothing is due.")]
JobsMax = Annotated[int | None, typer.Option("--jobs-max", min=1, help="End after so many jobs.")]
Reload = Annotated[bool, typer.Option("--reload", help="Start again when a .py file here changes.")]
Monitor = Annotated[
    bool, typer.Option("--monitor/--no-monitor", help="Take a turn at the housekeeping.")
]
Name = Annotated[str | None, typer.Option(help="Without: host and process id.")]
LogLevel = Annotated[Level, typer.Option(help="What to log on stderr.")]
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


def number_or_auto(said: str) -> int | Literal["auto"]:
    if said == AUTO:
        return AUTO
    if said.isascii() and said.isdigit():
        return int(said)
    raise InvalidInput(f"--concurrency {said}: a number from 1 on, or auto")
