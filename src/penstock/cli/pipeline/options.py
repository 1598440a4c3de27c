"""Options that the pipeline's commands share."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from penstock.address import parse

Master: TypeAlias = Annotated[
    str,
    typer.Option(
        "--master", metavar="MASTER", help="Spark's: local[4], spark://…, yarn, sc://… for Connect."
    ),
]
DEFAULT_MASTER = "local[*]"


def _absolute(url: str) -> str:
    """Executors may run in another folder."""
    return parse(url, {}).absolute_url


QueueUrl: TypeAlias = Annotated[
    str,
    typer.Argument(
        envvar="PENSTOCK_URL", metavar="URL", help="The queue's address.", callback=_absolute
    ),
]
Where: TypeAlias = Annotated[
    str | None,
    typer.Option("--where", metavar="SQL", help="Only rows of which this condition is true."),
]
