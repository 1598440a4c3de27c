"""`penstock migrate`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import typer
from msgspec.structs import asdict

from penstock.address import Address
from penstock.cli.opening import address_of, require_queue, run, spinner, telling_of_server
from penstock.cli.options import Json, refuse_unused
from penstock.cli.output import add_row, complain, out, print_json, say, state_text, table
from penstock.cli.progress import progress
from penstock.errors import InvalidInput, NoQueue
from penstock.insights.wording import counted
from penstock.migration.migration import JOBS_PER_BATCH, End, Migration, Report
from penstock.wiring import open_backend


def command(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Where the queue is.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Where it is to be.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be moved and what is in the way.")
    ] = False,
    abort: Annotated[
        bool, typer.Option("--abort", help="Take back a move of which nothing has arrived.")
    ] = False,
    batch: Annotated[
        int, typer.Option("--batch", min=1, max=10_000, help="Jobs per commit.")
    ] = JOBS_PER_BATCH,
    json: Json = False,
) -> None:
    """Jobs keep their state, lease, key, attempts, errors and result. From the start, whoever still
    has the source open is told where the queue is now. Killed or failed, the same command goes on
    where it was. The source is kept as it is, closed.
    """
    if abort:
        refuse_unused(context, "beside --abort", "dry_run", "batch")
    here, there = _address(source), _address(target)
    if here.absolute_url == there.absolute_url:
        raise InvalidInput("SOURCE and TARGET are the same address")
    if there.scheme == "memory":
        raise InvalidInput("memory:// ends with this process; the jobs would be lost")
    if abort:
        run(_abort(here, there, json))
        return
    report = run(_preview(here, there, batch) if dry_run else _move(here, there, batch))
    if json:
        print_json(asdict(report))
    else:
        _print(report)
    if report.conflicts:
        raise typer.Exit(1)


async def _move(here: Address, there: Address, batch: int) -> Report:
    async with _opened(here) as source, _opened(there, make=True) as target:
        return await Migration(source, target, batch=batch, progress=progress).run()


async def _preview(here: Address, there: Address, batch: int) -> Report:
    async with _opened(here) as source:
        try:
            await require_queue(there)
        except NoQueue:
            # A look makes nothing; where nothing is, nothing is in the way.
            empty = address_of("memory://")
            async with _opened(empty) as nothing:
                target = End(nothing.backend, there.known_as)
                return await Migration(source, target, batch=batch, progress=progress).preview()
        async with _opened(there) as target:
            return await Migration(source, target, batch=batch, progress=progress).preview()


async def _abort(here: Address, there: Address, json: bool) -> None:
    async with _opened(here) as source, _opened(there) as target:
        was_under_way = await Migration(source, target).abort()
    if json:
        print_json({"aborted": was_under_way})
    else:
        say("aborted: both queues are open" if was_under_way else "nothing to abort")


@asynccontextmanager
async def _opened(address: Address, *, make: bool = False) -> AsyncIterator[End]:
    if not make:
        await require_queue(address)
    backend = open_backend(address)
    with spinner(f"opening {address.shown_url}"), telling_of_server(False):
        await backend.start()
    try:
        yield End(backend, address.known_as)
    finally:
        await backend.stop()


def _address(url: str) -> Address:
    address = address_of(url)
    if address.settings:
        name = min(address.settings)
        raise InvalidInput(f"{name}: settings come along with the queue; change them afterwards")
    return address


def _print(report: Report) -> None:
    rows = table("tenant", "queue", "state", "jobs", right=["jobs"], flexible=["tenant", "queue"])
    for count in report.counts:
        add_row(rows, count.tenant, count.queue, state_text(count.state), count.jobs)
    out().print(rows)
    word = {"moved": "moved", "moved before": "was moved before", "would move": "would move"}
    extra = [f"{counted(report.keys, 'key')} of ended jobs"] if report.keys else []
    extra += [f"paused: {', '.join(report.paused)}"] if report.paused else []
    if report.keeps_settings:
        extra.append("the target keeps the settings it had")
    say(
        f"{word[report.status]}: {counted(report.jobs, 'job')} "
        f"from {report.source} to {report.target}" + "".join(f"; {each}" for each in extra)
    )
    if report.status == "moved":
        say(f"verified: counts and content agree, digest {report.digest[:16]}…")
    if report.without_value:
        say(
            f"{report.without_value:,} of them without a large payload or result, which was gone",
            "yellow",
        )
    for conflict in report.conflicts:
        complain(f"in the way: {conflict}")
