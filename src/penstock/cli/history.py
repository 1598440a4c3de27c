"""`penstock history`."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.event_lines import detail
from penstock.cli.opening import opened, run, spinner
from penstock.cli.options import Json, Tenant, Url, refuse_unused
from penstock.cli.output import add_row, duration, lines, out, print_json, table, text, when
from penstock.cli.status import VACUUMED
from penstock.errors import JobNotFound
from penstock.insights.lives import Life, find_lives
from penstock.insights.records import event_record
from penstock.kernel.events import Failed, JobEvent, Retried


def command(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="The job's id.")],
    url: Url = None,
    tenant: Tenant = None,
    life: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help="An earlier life of the id, as --lives has it."),
    ] = None,
    lives: Annotated[
        bool, typer.Option("--lives", help="List the lives of the id. Reads the whole log.")
    ] = False,
    json: Json = False,
) -> None:
    if lives:
        refuse_unused(context, "beside --lives, which lists them all", "life")
        _show_lives(run(_lives(id, url, tenant)), json=json)
        return
    events = run(_history(id, life, url, tenant))
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
    console = out()
    console.print(rows)
    console.print(f"life {events[0].life}")
    for event in events:
        if isinstance(event, Retried | Failed) and event.traceback is not None:
            console.print()
            console.print(text(f"attempt {event.attempt}:", "bold"))
            console.print(lines(event.traceback or VACUUMED))


async def _history(
    id: str, life: int | None, url: str | None, tenant: str | None
) -> list[JobEvent]:
    async with opened(url, tenant) as queue:
        with spinner("reading the log"):
            events = await queue.history(id, life=life)
            if not events and life is not None:
                raise JobNotFound(id, life, list(await find_lives(queue, id)))
    if not events:
        raise JobNotFound(id)
    return events


async def _lives(id: str, url: str | None, tenant: str | None) -> list[Life]:
    async with opened(url, tenant) as queue:
        with spinner("reading the log"):
            found = await find_lives(queue, id)
    if not found:
        raise JobNotFound(id)
    return list(found.values())


def _show_lives(lives: list[Life], *, json: bool) -> None:
    rows = table("life", "began (UTC)", "last event", right=["life"])
    for each in lives:
        if json:
            print_json(each)
        # A number that is to be typed again has no commas.
        add_row(rows, str(each.life), when(each.began_at), each.last_event)
    if not json:
        out().print(rows)
