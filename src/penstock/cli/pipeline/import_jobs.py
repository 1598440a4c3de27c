"""`penstock pipeline import`."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.options import Json
from penstock.cli.output import print_json, say
from penstock.cli.pipeline.export import Format
from penstock.cli.pipeline.options import DEFAULT_MASTER, Master, QueueUrl, Where


def command(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A file or folder of jobs, such as `export`'s.")
    ],
    url: QueueUrl,
    format: Annotated[
        Format | None, typer.Option("--format", help="Of the files; without, by their name.")
    ] = None,
    where: Where = None,
    dead_letters: Annotated[
        bool, typer.Option("--dead-letters", help="Failed and cancelled jobs too.")
    ] = False,
    master: Master = DEFAULT_MASTER,
    json: Json = False,
) -> None:
    """Adds jobs from Parquet, JSON or CSV with Spark. They begin anew, with the ids they had; jobs
    that had completed are left out. What is there already is left alone, so it can be repeated.
    """
    from penstock.pipeline.operations.moving import import_jobs
    from penstock.pipeline.session import session

    jobs = import_jobs(
        session(master),
        source,
        url,
        format=None if format is None else format.value,
        where=where,
        dead_letters=dead_letters,
    )
    print_json({"jobs": jobs}) if json else say(f"imported {jobs:,} jobs")
