"""`penstock vacuum`."""

from __future__ import annotations

from msgspec.structs import asdict

from penstock.cli.opening import opened, run, spinner
from penstock.cli.options import Json, PlainUrl, UrlArgument, one_url
from penstock.cli.output import print_json, say
from penstock.ports.backend import VacuumReport


def command(url: UrlArgument = None, at: PlainUrl = None, json: Json = False) -> None:
    """Workers and `penstock monitor` do it every hour; this does it now."""
    report = run(_vacuum(one_url(url, at)))
    if json:
        print_json(asdict(report))
        return
    say(
        f"deleted {report.log_objects:,} log objects, {report.checkpoints:,} checkpoints and "
        f"{report.data_objects:,} data objects; the log begins at commit {report.floor:,}"
    )


async def _vacuum(url: str | None) -> VacuumReport:
    async with opened(url) as queue:
        with spinner("vacuuming"):
            return await queue.vacuum()
