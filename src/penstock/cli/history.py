"""`penstock history`."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.event_lines import detail
from penstock.cli.opening import opened, run, spinner
from penstock.cli.options import Json, Tenant, Url
from penstock.cli.output import add_row, duration, out, print_json, table, text, when
from penstock.errors import JobNotFound
from penstock.insights.records import event_record
from penstock.kernel.events import JobEvent


def command(
    id: Annotated[str, typer.Argument(metavar="ID", help="The job's id.")],
    url: Url = None,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    events = run(_history(id, url, tenant))
    if json:
        for event in events:
            print_json(event_record(event))
        return
    rows = table(
        "at (UTC)", "after", "event", "attempt", "detail",
        right=["after", "attempt"], flexible=["detail"],
    )  # fmt: skip
    before: JobEvent | None = None
    for event in events:
        after = None if before is None else duration(event.at - before.at)
        attempt = getattr(event, "attempt", None)
        more = text(detail(event), wrap=True)
        add_row(rows, when(event.at), after, event.event, attempt, more)
        before = event
    out().print(rows)


async def _history(id: str, url: str | None, tenant: str | None) -> list[JobEvent]:
    async with opened(url, tenant) as queue:
        with spinner("reading the log"):
            events = await queue.history(id)
    if not events:
        raise JobNotFound(id)
    return events
