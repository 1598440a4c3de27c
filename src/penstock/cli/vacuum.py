"""`penstock vacuum`."""

from __future__ import annotations

import typer
from msgspec.structs import asdict

from penstock.cli.opening import opened, run, spinner
from penstock.cli.options import Json, PlainUrl, UrlArgument, one_url
from penstock.cli.output import print_json, say
from penstock.insights.wording import counted
from penstock.ports.backend import VacuumReport


def command(
    context: typer.Context, url: UrlArgument = None, at: PlainUrl = None, json: Json = False
) -> None:
    """Workers and `penstock monitor` do it every hour; this does it now."""
    report = run(_vacuum(one_url(context, url, at)))
    if json:
        print_json(asdict(report))
        return
    say(
        f"deleted {counted(report.log_objects, 'log object')}, "
        f"{counted(report.checkpoints, 'checkpoint')} and "
        f"{counted(report.data_objects, 'data object')}; the log begins at commit {report.floor:,}"
    )


async def _vacuum(url: str | None) -> VacuumReport:
    async with opened(url) as queue:
        with spinner("vacuuming"):
            return await queue.vacuum()
