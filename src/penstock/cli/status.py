"""`penstock status`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec
import typer
from msgspec.structs import asdict
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.event_lines import progress_words
from penstock.cli.opening import opened, run
from penstock.cli.options import Json, Tenant, Url
from penstock.cli.output import (
    add_row,
    beginning,
    lines,
    out,
    print_json,
    state_text,
    table,
    text,
    when,
)
from penstock.client.tracebacks import FailureRecord
from penstock.errors import JobNotFound
from penstock.insights.records import job_record, told
from penstock.kernel.job import Job

VACUUMED: Final = "its traceback has been vacuumed with the log"


def command(
    id: Annotated[str, typer.Argument(metavar="ID", help="The job's id.")],
    url: Url = None,
    tenant: Tenant = None,
    full: Annotated[
        bool, typer.Option("--full", help="Long values whole, and not just their beginning.")
    ] = False,
    json: Json = False,
) -> None:
    """Of a long payload, result or meta the beginning is shown; --full and --json have all."""
    job, failures = run(_find(id, url, tenant))
    if json:
        print_json({**job_record(job), "errors": [asdict(failure) for failure in failures]})
        return
    console = out()
    console.print(_facts(job, full=full))
    if job.errors:
        errors = table(
            "attempt", "at (UTC)", "kind", "message", right=["attempt"], flexible=["message"]
        )
        for error in job.errors:
            message = text(error.message, wrap=True)
            add_row(errors, error.attempt, when(error.at), error.kind, message)
        console.print()
        console.print(errors)
        for failure in failures:
            _print_traceback(console, failure)


def _print_traceback(console: Console, failure: FailureRecord) -> None:
    if failure.traceback is None and not failure.vacuumed:
        return
    console.print()
    console.print(text(f"attempt {failure.attempt}:", "bold"))
    console.print(lines(failure.traceback or VACUUMED))


async def _find(id: str, url: str | None, tenant: str | None) -> tuple[Job, list[FailureRecord]]:
    async with opened(url, tenant) as queue:
        job = await queue.get(id)
        if job is None:
            raise JobNotFound(id)
        return job, await queue.failures(id) if job.errors else []


def _facts(job: Job, *, full: bool) -> Table:
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="bold", no_wrap=True)
    rows.add_column(overflow="fold")
    for name, value in _shown(job, _whole if full else _beginning):
        rows.add_row(name, value if isinstance(value, Text) else text(value, wrap=True))
    return rows


def _shown(job: Job, show: Callable[[Any], str]) -> list[tuple[str, Any]]:
    facts: list[tuple[str, Any]] = [
        ("id", job.id),
        ("type", job.type),
        ("queue", job.queue),
        ("tenant", job.tenant),
        ("state", state_text(job.state.value, expired=job.expired)),
        ("priority", job.priority),
        ("attempt", f"{job.attempt} ({job.failures} of at most {job.max_attempts} failures)"),
        ("enqueued (UTC)", when(job.enqueued_at)),
        ("due (UTC)", when(job.run_at)),
        ("started (UTC)", when(job.started_at)),
        ("ended (UTC)", when(job.ended_at)),
        ("payload", show(job.payload)),
        ("life", _life(job)),
    ]
    optional = {
        "archived": None if job.archived_at is None else when(job.archived_at),
        "worker": job.worker,
        "lease until": None if job.lease_until is None else when(job.lease_until),
        "progress": None
        if job.progress is None
        else progress_words(job.progress, job.progress_message),
        "key": job.key,
        "meta": None if job.meta is None else show(job.meta),
        "trace": job.trace,
        "result": None if job.result is None else show(job.result),
    }
    return facts + [(name, value) for name, value in optional.items() if value is not None]


def _life(job: Job) -> str:
    """Its number, and where those of the lives before are; few jobs have had any."""
    earlier = len(job.operations) - 1
    more = "" if earlier < 1 else "; it is not the first: `penstock history ID --lives`"
    return f"{job.life}{more}"


def _beginning(value: Any) -> str:
    return beginning(_whole(value), "--full shows it whole, --json for programs")


def _whole(value: Any) -> str:
    return msgspec.json.encode(told(value), enc_hook=str).decode()
