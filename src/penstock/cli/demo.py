"""`penstock demo`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from penstock.address import RECORD_SCHEMES
from penstock.cli.opening import address_of, opened, run
from penstock.cli.options import Json, refuse_unused
from penstock.cli.output import add_row, duration, err, out, print_json, say, table, text
from penstock.cli.output_file import file_named
from penstock.cli.progress import progress
from penstock.cli.tour import Told, Tour
from penstock.cli.tour_costs import NOTE_SECONDS, Meter, Spent
from penstock.errors import InvalidInput, MissingExtra, MissingJava
from penstock.insights.wording import counted
from penstock.runtime.services import Services


def command(
    context: typer.Context,
    jobs: Annotated[int, typer.Option("--jobs", "-n", min=100, help="How many.")] = 20_000,
    url: Annotated[
        str | None,
        typer.Option("--url", "-u", metavar="URL", help="A new queue there and not in /tmp."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="FILE", parser=file_named,
            help="Where the report's page is to be kept.",
        ),
    ] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Go without Spark.")] = False,
    json: Json = False,
) -> None:  # fmt: skip
    """Enqueues jobs of several kinds, kills a worker half-way, lets another take over, and counts.
    Then Spark reads the queue into tables and makes a report of them; with --json only if --report
    says where. Exit code 0 only if every job is accounted for.
    """
    if no_report:
        refuse_unused(context, "beside --no-report", "report")
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as name:
        folder = Path(name)
        place = url or str(folder / "queue")
        told = run(_tour(place, jobs, folder))
        print_json(msgspec.to_builtins(told)) if json else _show(told)
        if not told.complete:
            raise typer.Exit(1)
        if report is not None or not (json or no_report):
            report_of(place, folder / "warehouse", report, quiet=json)


def report_of(url: str, warehouse: Path, output: Path | None, *, quiet: bool) -> None:
    """What cannot be had here is said; the accounts stand without it."""
    try:
        from penstock.cli.tour_report import tour_report

        tour_report(url, warehouse, output, quiet=quiet)
    except (MissingExtra, MissingJava) as missing:
        err().print(f"the demo goes on with a report: {missing}", soft_wrap=True)


async def _tour(url: str, jobs: int, folder: Path) -> Told:
    clock, meter = Services().clock, Meter()
    # Only of a store of objects are there requests to count.
    is_counted = address_of(url).scheme not in RECORD_SCHEMES
    layered: dict[str, Any] = {"layer": meter.layer} if is_counted else {}
    async with opened(url, make=True, **layered) as queue:
        if any((await queue.stats()).totals.values()):
            raise InvalidInput("the demo needs a queue of its own, and there are jobs in this one")
        # The tour's jobs are killed and taken over within seconds, so clocks have to agree better.
        await queue.configure(clock_skew_seconds=0.5)
        tour = Tour(queue, url, jobs, meter, folder)
        with progress("enqueuing", tour.jobs) as done:
            duplicates = await tour.enqueue(done)
        started_at = clock.elapsed()
        with progress("working", tour.jobs) as done:
            await tour.work(done, lambda words: err().print(words))
        return await tour.accounts(duplicates, clock.elapsed() - started_at)


def _show(told: Told) -> None:
    rows = table("kind", "what they do", "jobs", "should be", "are so", right=["jobs", "are so"])
    for account in told.accounts:
        style = "green" if account.jobs == account.ended else "red"
        add_row(
            rows, account.type, account.story, account.jobs, account.ends,
            text(account.ended, style),
        )  # fmt: skip
    out().print(rows)
    say(
        f"{counted(told.jobs, 'job')} in {duration(told.seconds)}, "
        f"{told.jobs / told.seconds:,.0f}/s; "
        f"an attempt took {duration(told.p50_seconds)} (p50), {duration(told.p99_seconds)} (p99)"
    )
    say(
        f"{counted(told.duplicates, 'duplicate')} recognised; "
        f"{counted(told.taken_back, 'job')} of the killed worker came back"
    )
    say(_costs(told))
    if told.complete:
        say("every job is accounted for", "bold green")
    else:
        say("the accounts do not add up", "bold red")


def _costs(told: Told) -> str:
    spent = told.requests
    if spent == Spent():
        return counted(told.commits, "commit")
    return (
        f"{counted(told.commits, 'commit')} with {counted(spent.puts, 'PUT')}, "
        f"{counted(spent.gets, 'GET')}, {counted(spent.lists, 'LIST')} and "
        f"{counted(spent.deletes, 'DELETE')}, the killed worker's until "
        f"{NOTE_SECONDS:g} s before its end; on S3 these would cost ${told.dollars_on_s3:.4f}"
    )
