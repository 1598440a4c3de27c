"""`penstock list`."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from penstock.cli.opening import opened, run
from penstock.cli.options import Json, OnlyQueue, OnlyState, OnlyType, Tenant, Url
from penstock.cli.output import add_row, err, out, print_json, state_text, table, when
from penstock.insights.listing import listed
from penstock.insights.records import job_record
from penstock.kernel.job import Job

WIDE_COLUMNS: Final = 110


def command(
    state: OnlyState = None,
    queue: OnlyQueue = None,
    type: OnlyType = None,
    archived: Annotated[bool, typer.Option("--archived", help="Only archived jobs.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 50,
    url: Url = None,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    wanted = None if state is None else state.value
    jobs, has_more = run(_listed(wanted, queue, type, archived, limit, url, tenant))
    if json:
        for job in jobs:
            print_json(job_record(job))
        return
    console = out()
    # Ids are never cut; what there is no room for is in `penstock status`.
    more = ("due (UTC)", "error") if console.width >= WIDE_COLUMNS else ()
    rows = table(
        "id", "queue", "type", "state", "try", *more,
        right=["try"], flexible=["error", "queue", "type"],
    )  # fmt: skip
    for job in jobs:
        last = job.errors[-1].message if job.errors else ""
        cells = (job.id, job.queue, job.type, state_text(job.state.value), job.attempt)
        add_row(rows, *cells, *((when(job.run_at), last) if more else ()))
    console.print(rows)
    if has_more:
        err().print(f"only the first {limit:,}; --limit shows more")


async def _listed(
    state: str | None,
    name: str | None,
    type: str | None,
    archived: bool,
    limit: int,
    url: str | None,
    tenant: str | None,
) -> tuple[list[Job], bool]:
    """The first jobs, and whether there are more."""
    found: list[Job] = []
    async with opened(url, tenant) as queue:
        async for job in listed(queue, state=state, name=name, type=type, archived=archived):
            if len(found) == limit:
                return found, True
            found.append(job)
    return found, False
