"""`penstock list`."""

from __future__ import annotations

from enum import StrEnum
from shlex import quote
from typing import Annotated, Any

import typer

from penstock.cli.fitted import LEFT_OUT, FittedTable
from penstock.cli.opening import opened, run
from penstock.cli.options import Json, OnlyQueue, OnlyState, OnlyType, Tenant, Url
from penstock.cli.output import err, out, print_json, say, state_text, when
from penstock.engines.records.tasks.names import shards_in
from penstock.errors import InvalidInput
from penstock.insights.listing import first_by, listed, with_values
from penstock.insights.records import job_record
from penstock.kernel.job import Job
from penstock.ports.listing import cursor_of


class SortName(StrEnum):
    ENQUEUED_AT = "enqueued_at"
    UPDATED_AT = "updated_at"
    RUN_AT = "run_at"
    PRIORITY = "priority"
    FAILURES = "failures"


def command(
    state: OnlyState = None,
    queue: OnlyQueue = None,
    type: OnlyType = None,
    archived: Annotated[bool, typer.Option("--archived", help="Only archived jobs.")] = False,
    shard: Annotated[
        str | None,
        typer.Option("--shard", metavar="0-7", help="Only jobs of these shards of layout tasks."),
    ] = None,
    attempts_min: Annotated[
        int, typer.Option("--attempts-min", min=0, help="Only jobs tried at least so often.")
    ] = 0,
    sort: Annotated[
        SortName | None,
        typer.Option("--sort", help="By this field; without, oldest first. Reads all jobs."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 50,
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="CURSOR", help="Go on where an earlier list has ended."),
    ] = None,
    url: Url = None,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    if sort is not None and after is not None:
        raise InvalidInput("--after goes on in the order of the list itself: leave out --sort")
    wanted = None if state is None else state.value
    jobs = run(
        _listed(
            url, tenant, None if sort is None else sort.value, limit + 1, json,
            state=wanted, name=queue, type=type, archived=archived, after=after,
            shards=_shards(shard), attempts_min=attempts_min,
        )
    )  # fmt: skip
    has_more = len(jobs) > limit
    del jobs[limit:]
    if json:
        for job in jobs:
            # In another order than the list's own there is nothing to go on behind.
            cursor = {} if sort is not None else {"cursor": cursor_of(job)}
            print_json({**job_record(job), **cursor})
        return
    if not jobs:
        say("no jobs")
        return
    out().print(job_table(jobs))
    if has_more:
        rest = "" if sort is not None else f", --after {quote(cursor_of(jobs[-1]))} goes on"
        shown = "the first" if after is None else "the next"
        err().print(
            f"these are {shown} {limit:,}, and there are more: --limit shows more at once{rest}",
            soft_wrap=True,
        )


def job_table(jobs: list[Job]) -> FittedTable:
    """Of columns that say nothing here there are none: when jobs that have ended were due, and
    errors where nothing has failed. What there is no room for is in `penstock status`."""
    columns = ["id", "queue", "type", "state", "try"]
    has_due = not all(job.is_terminal for job in jobs)
    has_errors = any(job.errors for job in jobs)
    rows = FittedTable(
        *columns, *(["due (UTC)"] if has_due else []), *(["error"] if has_errors else []),
        right=["try"], whole="id",
        giving_way={
            "error": 12, "due (UTC)": LEFT_OUT, "try": LEFT_OUT, "type": 8, "queue": 8,
        },
    )  # fmt: skip
    for job in jobs:
        due = None if job.is_terminal else when(job.run_at)
        last = job.errors[-1].message if job.errors else ""
        rows.add_row(
            job.id, job.queue, job.type, state_text(job.state.value, expired=job.expired),
            job.attempt, *([due] if has_due else []), *([last] if has_errors else []),
        )  # fmt: skip
    return rows


async def _listed(
    url: str | None,
    tenant: str | None,
    sort: str | None,
    limit: int,
    has_values: bool,
    **wanted: Any,
) -> list[Job]:
    async with opened(url, tenant) as queue:
        if sort is not None:
            jobs = await first_by(listed(queue, **wanted), sort, limit)
        else:
            jobs = [job async for job in listed(queue, limit=limit, **wanted)]
        return await with_values(queue, jobs) if has_values else jobs


def _shards(said: str | None) -> str | None:
    try:
        return None if said is None else shards_in(said)
    except ValueError:
        raise InvalidInput(f"--shard {said}: hex digits, as in 0-7 or 0,4,c") from None
