"""`penstock events`."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated

import typer

from penstock.cli.event_lines import line
from penstock.cli.opening import opened, run
from penstock.cli.options import Json, Tenant, Url
from penstock.cli.output import out, print_json
from penstock.errors import InvalidInput
from penstock.insights.records import event_record


def command(
    since: Annotated[
        str, typer.Option(metavar="beginning|now|POSITION", help="Where to start.")
    ] = "now",
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="End after so many.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Go on with what happens next.")
    ] = True,
    url: Url = None,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Until ctrl-c. The position of an event that was seen is where the next run can start."""
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        run(_follow(start_of(since), limit, follow, url, tenant, json))


def start_of(since: str) -> str | int:
    if since in ("beginning", "now"):
        return since
    if since.isdecimal():
        return int(since)
    raise InvalidInput(f"--since {since}: beginning, now or a position")


async def _follow(
    since: str | int,
    limit: int | None,
    follow: bool,
    url: str | None,
    tenant: str | None,
    json: bool,
) -> None:
    seen = 0
    console = out()
    async with opened(url, tenant) as queue:
        async for event in queue.events(since, follow=follow):
            if json:
                print_json(event_record(event))
            else:
                console.print(line(event), soft_wrap=True)
            seen += 1
            if seen == limit:
                return
