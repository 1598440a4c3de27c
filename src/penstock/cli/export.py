"""`penstock export`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import IO, Annotated, Any, Final, NamedTuple

import typer

from penstock.cli.opening import opened, run
from penstock.cli.options import (
    Json,
    OnlyQueue,
    OnlyState,
    OnlyType,
    Output,
    Tenant,
    Url,
    refuse_unused,
)
from penstock.cli.output import err, json_line, print_json
from penstock.cli.output_file import STDOUT, open_output
from penstock.cli.progress import progress
from penstock.client.queue import Queue
from penstock.errors import InvalidInput
from penstock.insights.listing import listed, with_values
from penstock.insights.records import event_record, portable_job_record
from penstock.insights.wording import counted
from penstock.kernel.job import Job

JOBS_PER_READ: Final = 1_000


class Wanted(NamedTuple):
    state: str | None
    queue: str | None
    type: str | None


def command(
    context: typer.Context,
    jobs: Annotated[
        bool, typer.Option("--jobs", help="The jobs; what you get by default.")
    ] = False,
    events: Annotated[bool, typer.Option("--events", help="Everything that happened.")] = False,
    state: OnlyState = None,
    queue: OnlyQueue = None,
    type: OnlyType = None,
    output: Output = None,
    url: Url = None,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Jobs come with payload and result, those of completed ones read back from the log, where it
    still has them. A file is replaced when it is complete and not before; a pipe or a device is
    written to as it is. --json prints the counts as JSON.
    """
    if json and (output is None or str(output) == STDOUT):
        raise InvalidInput("--json prints the counts, so the lines need a file: pass --output FILE")
    if events:
        refuse_unused(context, "on events, which are of no state", "state")
    wanted = Wanted(None if state is None else state.value, queue, type)
    # Opened before there is an event loop: a pipe may have to wait for its reader.
    with open_output(output) as file:
        counts = run(_export(jobs or not events, events, wanted, file, url, tenant))
    if json:
        print_json(counts)
    else:
        err().print(
            "exported "
            + " and ".join(counted(n, name.removesuffix("s")) for name, n in counts.items())
        )


async def _export(
    jobs: bool,
    events: bool,
    wanted: Wanted,
    file: IO[str],
    url: str | None,
    tenant: str | None,
) -> dict[str, int]:
    counts: dict[str, int] = {}
    async with opened(url, tenant) as queue:
        if jobs:
            total = (await queue.stats()).jobs
            counts["jobs"] = await _write("jobs", _jobs(queue, wanted), file, total)
        if events:
            counts["events"] = await _write("events", _events(queue, wanted), file, None)
    return counts


async def _jobs(queue: Queue, wanted: Wanted) -> AsyncIterator[dict[str, Any]]:
    jobs = listed(queue, state=wanted.state, name=wanted.queue, type=wanted.type)
    async for batch in _batches(jobs):
        for job in await with_values(queue, batch, all_of_them=True):
            yield portable_job_record(job)


async def _batches(jobs: AsyncIterator[Job]) -> AsyncIterator[list[Job]]:
    batch: list[Job] = []
    async for job in jobs:
        batch.append(job)
        if len(batch) == JOBS_PER_READ:
            yield batch
            batch = []
    if batch:
        yield batch


async def _events(queue: Queue, wanted: Wanted) -> AsyncIterator[dict[str, Any]]:
    only = {"queue": wanted.queue, "type": wanted.type}
    async for event in queue.events("beginning", follow=False):
        record = event_record(event)
        if all(value is None or record.get(field) == value for field, value in only.items()):
            yield record


async def _write(
    what: str, records: AsyncIterator[dict[str, Any]], file: IO[str], total: int | None
) -> int:
    count = 0
    with progress(f"exporting {what}", total) as done:
        async for record in records:
            file.write(json_line(record))
            count += 1
            done(1)
    return count
