"""Options that many commands share, said once."""

from __future__ import annotations

from enum import StrEnum
from math import inf, isfinite
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from penstock.cli.output_file import file_named
from penstock.errors import InvalidInput

_URL_HELP = (
    "The queue's address: a folder, file:///…, sqlite:///…, postgresql://…, redis://…, "
    "s3://…, gs://… or az://…"
)

Url: TypeAlias = Annotated[
    str | None,
    typer.Option("--url", "-u", envvar="PENSTOCK_URL", metavar="URL", help=_URL_HELP),
]
UrlArgument: TypeAlias = Annotated[
    str | None, typer.Argument(envvar="PENSTOCK_URL", metavar="URL", help=_URL_HELP)
]
PlainUrl: TypeAlias = Annotated[
    str | None,
    typer.Option("--url", "-u", metavar="URL", help="The same as the argument."),
]
"""For commands that take the address as an argument: the option works there too."""
Tenant: TypeAlias = Annotated[
    str | None,
    # Without the variable: it is the address that reads it, after what the URL itself says.
    typer.Option("--tenant", "-t", help="Whose jobs; without, the URL's own."),
]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print JSON, one object a line, for programs.")
]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Ids: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="ID…", help="Ids of jobs; - reads them from stdin.")
]
IdsOrNone: TypeAlias = Annotated[
    list[str] | None, typer.Argument(metavar="ID…", help="Ids of jobs; - reads them from stdin.")
]
QueueName: TypeAlias = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.")]
OnlyQueue: TypeAlias = Annotated[
    str | None, typer.Option("--queue", "-q", help="Only jobs of this queue.")
]
OnlyType: TypeAlias = Annotated[str | None, typer.Option("--type", help="Only jobs of this type.")]
Output: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", parser=file_named, help="Write there; - is stdout."
    ),
]


class StateName(StrEnum):
    """The states, and the two views of pending that people ask for."""

    BLOCKED = "blocked"
    PENDING = "pending"
    SCHEDULED = "scheduled"
    RETRYING = "retrying"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


OnlyState: TypeAlias = Annotated[
    StateName | None, typer.Option("--state", "-s", help="Only jobs in this state.")
]


def refuse_unused(context: typer.Context, why: str, *names: str) -> None:
    """Refuses what was typed and would have no effect; `why` says when, as in `without --key`.

    What comes from the environment is for many commands, and need not matter to this one.
    """
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in names and source is not None and source.name == "COMMANDLINE":
            said = parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.metavar
            raise InvalidInput(f"{said} has no effect {why}; leave it out")


def finite(seconds: float | None) -> float | None:
    """Refuses what no clock can wait for: it is no number, or for ever."""
    if seconds is not None and not isfinite(seconds):
        raise typer.BadParameter("it must be a finite number")
    return seconds


def above_zero(seconds: float) -> float:
    """Refuses what is no span of time that anybody can wait for."""
    if not 0 < seconds < inf:
        raise typer.BadParameter(f"{seconds:g} is no finite number above 0")
    return seconds


def one_url(context: typer.Context, argument: str | None, option: str | None) -> str | None:
    """The address of a command that takes it as an argument or as the option."""
    if option is not None:
        refuse_unused(context, "beside --url", "url")
    return option or argument
