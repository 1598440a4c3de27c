"""`penstock pipeline export`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.options import Json, Tenant
from penstock.cli.output import print_json, say
from penstock.cli.pipeline.options import DEFAULT_MASTER, Master, QueueUrl, Where


class Format(StrEnum):
    PARQUET = "parquet"
    JSON = "json"
    CSV = "csv"


class SourceTable(StrEnum):
    JOBS = "jobs"
    EVENTS = "events"
    ATTEMPTS = "attempts"


def command(
    url: QueueUrl,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The folder to write.")],
    table: Annotated[SourceTable, typer.Option("--table", help="What of.")] = SourceTable.JOBS,
    format: Annotated[Format, typer.Option("--format", help="Of the files.")] = Format.PARQUET,
    where: Where = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="In place of what is there.")
    ] = False,
    tenant: Tenant = None,
    master: Master = DEFAULT_MASTER,
    json: Json = False,
) -> None:
    """Writes a queue's jobs, events or attempts as a folder of files, with Spark. In CSV, what is
    nested stands as JSON.
    """
    from penstock.pipeline.operations.moving import export_table
    from penstock.pipeline.session import session

    rows = export_table(
        session(master),
        url,
        target,
        table=table.value,
        format=format.value,
        where=where,
        tenant=tenant,
        overwrite=overwrite,
    )
    if json:
        print_json({"table": table.value, "rows": rows, "target": target})
    else:
        say(f"exported {rows:,} rows of {table.value} to {target}")
