"""`penstock status`."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from penstock.cli.opening import opened, run
from penstock.cli.options import Json, Tenant, Url
from penstock.cli.output import add_row, out, print_json, state_text, table, text, when
from penstock.errors import JobNotFound
from penstock.insights.records import job_record
from penstock.kernel.job import Job


def command(
    id: Annotated[str, typer.Argument(metavar="ID", help="The job's id.")],
    url: Url = None,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    job = run(_find(id, url, tenant))
    if json:
        print_json(job_record(job))
        return
    console = out()
    console.print(_facts(job))
    if job.errors:
        errors = table(
            "attempt", "at (UTC)", "kind", "message", right=["attempt"], flexible=["message"]
        )
        for error in job.errors:
            message = text(error.message, wrap=True)
            add_row(errors, error.attempt, when(error.at), error.kind, message)
        console.print()
        console.print(errors)


async def _find(id: str, url: str | None, tenant: str | None) -> Job:
    async with opened(url, tenant) as queue:
        job = await queue.get(id)
    if job is None:
        raise JobNotFound(id)
    return job


def _facts(job: Job) -> Table:
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="bold", no_wrap=True)
    rows.add_column(overflow="fold")
    for name, value in _shown(job):
        rows.add_row(name, value if isinstance(value, Text) else text(value, wrap=True))
    return rows


def _shown(job: Job) -> list[tuple[str, Any]]:
    facts: list[tuple[str, Any]] = [
        ("id", job.id),
        ("type", job.type),
        ("queue", job.queue),
        ("tenant", job.tenant),
        ("state", state_text(job.state.value)),
        ("priority", job.priority),
        ("attempt", f"{job.attempt}, {job.failures} of {job.max_attempts} failures"),
        ("enqueued", when(job.enqueued_at)),
        ("due", when(job.run_at)),
        ("started", when(job.started_at)),
        ("ended", when(job.ended_at)),
        ("payload", _json(job.payload)),
    ]
    optional = {
        "archived": None if job.archived_at is None else when(job.archived_at),
        "worker": job.worker,
        "lease until": None if job.lease_until is None else when(job.lease_until),
        "progress": None if job.progress is None else f"{job.progress:.0%}",
        "key": job.key,
        "meta": None if job.meta is None else _json(job.meta),
        "trace": job.trace,
        "result": None if job.result is None else _json(job.result),
    }
    return facts + [(name, value) for name, value in optional.items() if value is not None]


def _json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()
