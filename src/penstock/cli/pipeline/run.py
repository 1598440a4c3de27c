"""`penstock pipeline run`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.options import Json
from penstock.cli.output import add_row, duration, err, out, print_json, say, table
from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.pipeline.run import Pipeline, Summary
    from penstock.pipeline.transforms.gold import Objectives

_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def command(
    url: Annotated[str, typer.Argument(metavar="URL", help="The queue's address.")],
    warehouse: Annotated[
        str, typer.Argument(metavar="WAREHOUSE", help="Where the tables are: a folder or s3://…")
    ],
    once: Annotated[
        bool, typer.Option("--once", help="End when the tables are up to date; the default.")
    ] = False,
    every: Annotated[
        str | None, typer.Option(metavar="5m", help="Do it again every so often, until ctrl-c.")
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="As a streaming query, until ctrl-c.")
    ] = False,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Where the stream keeps its offsets.")
    ] = None,
    format: Annotated[
        str, typer.Option(metavar="delta|parquet", help="How the tables are kept.")
    ] = "delta",
    retain: Annotated[
        str | None, typer.Option(metavar="90d", help="Let go of days older than this.")
    ] = None,
    slo: Annotated[
        str,
        typer.Option(
            metavar="wait=60s,run=5m,success=0.99", help="What jobs are held to, in table slo."
        ),
    ] = "",
    master: Annotated[
        str, typer.Option(metavar="MASTER", help="Spark's master, or sc://… for Spark Connect.")
    ] = "local[*]",
    json: Json = False,
) -> None:
    """Each table knows how far it is, so a run that was killed is simply run again, and two at
    once do no harm. The queue keeps its log until every table has it.
    """
    if sum((once, every is not None, stream)) > 1:
        raise InvalidInput("--once, --every and --stream say the same differently: take one")
    pause_seconds = None if every is None else seconds_of("--every", every)
    retain_days = None if retain is None else round(seconds_of("--retain", retain) / 86_400)
    objectives = objectives_of(slo)

    from penstock.pipeline.run import Plan

    plan = Plan(url, warehouse, format, retain_days, objectives)
    show = print_summary if not json else print_summary_json
    with _opened(plan, master) as pipeline:
        if stream:
            pipeline.run_stream(checkpoint, on_batch=show)
        elif pause_seconds is not None:
            pipeline.run_every(pause_seconds, show)
        else:
            show(pipeline.run_once())


def seconds_of(option: str, text: str) -> float:
    found = _DURATION.fullmatch(text)
    if found is None or float(found[1]) <= 0:
        raise InvalidInput(f"{option} {text}: a number and a unit, for example 30s, 5m, 2h or 90d")
    return float(found[1]) * _UNITS[found[2]]


def objectives_of(text: str) -> Objectives:
    from penstock.pipeline.transforms.gold import Objectives

    said: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name in ("wait", "run"):
            said[f"{name}_seconds_max"] = seconds_of(f"--slo {name}", value)
        elif name == "success" and re.fullmatch(r"0?\.\d+|[01]|1\.0+", value):
            said["success_target"] = float(value)
        else:
            raise InvalidInput(f"--slo {part}: wait=60s, run=5m and success=0.99 are known")
    return Objectives(**said)


@contextmanager
def _opened(plan: object, master: str) -> Iterator[Pipeline]:
    """The pipeline on a session of its own; on a terminal, what it does is shown as it goes."""
    from penstock.pipeline.run import Plan, opened_pipeline
    from penstock.pipeline.session import session

    assert isinstance(plan, Plan)
    with _status() as on_step:
        on_step("starting Spark")
        spark = session(master)
        try:
            with opened_pipeline(spark, plan, on_step=on_step) as pipeline:
                yield pipeline
        finally:
            spark.stop()


@contextmanager
def _status() -> Iterator[Callable[[str], None]]:
    console = err()
    if not console.is_terminal:
        yield lambda step: None
        return
    with console.status("opening") as status:
        yield status.update


def print_summary(summary: Summary) -> None:
    if not summary.tables:
        say(f"nothing new: all tables contain commit {summary.last_commit:,}")
        return
    rows = table("table", "rows", right=("rows",))
    for name, count in summary.tables.items():
        add_row(rows, name, count)
    out().print(rows)
    say(
        f"commits {summary.first_commit:,} to {summary.last_commit:,} "
        f"in {duration(summary.seconds)}"
    )


def print_summary_json(summary: Summary) -> None:
    print_json(
        {
            "first_commit": summary.first_commit,
            "last_commit": summary.last_commit,
            "seconds": round(summary.seconds, 3),
            "tables": summary.tables,
        }
    )
