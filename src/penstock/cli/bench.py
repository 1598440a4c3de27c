"""`penstock bench`."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec.structs import asdict

from penstock.cli.opening import address_of, run, telling_of_server
from penstock.cli.options import Json, PlainUrl, UrlArgument, one_url
from penstock.cli.output import add_row, out, print_json, say, table
from penstock.cli.progress import progress
from penstock.insights.measuring import Measured, Shape, measure
from penstock.insights.wording import counted


def command(
    context: typer.Context,
    url: UrlArgument = None,
    at: PlainUrl = None,
    jobs: Annotated[int, typer.Option("--jobs", "-n", min=1, help="How many.")] = 2_000,
    callers: Annotated[
        int, typer.Option(min=1, help="How many enqueue at once, one job a call.")
    ] = 64,
    batch: Annotated[int, typer.Option(min=1, help="How many a claim takes.")] = 64,
    json: Json = False,
) -> None:
    """On a queue of its own beside yours, under `bench/`, which is deleted in the end."""
    shape = Shape(jobs, callers, batch)
    results, name = run(_measured(one_url(context, url, at), shape))
    if json:
        for result in results:
            print_json(asdict(result))
        return
    rows = table(
        "phase", "jobs", "seconds", "jobs/s", "p50 ms", "p99 ms", "requests", "per job",
        right=["jobs", "seconds", "jobs/s", "p50 ms", "p99 ms", "requests", "per job"],
    )  # fmt: skip
    for result in results:
        add_row(
            rows, result.phase, result.jobs, f"{result.seconds:.2f}",
            f"{result.jobs_per_second:,.0f}", f"{result.p50_seconds * 1000:.1f}",
            f"{result.p99_seconds * 1000:.1f}", result.requests,
            f"{result.requests / result.jobs:.3f}",
        )  # fmt: skip
    out().print(rows)
    say(f"{name}, {counted(callers, 'caller')}, claims of {batch}; p50 and p99 are of one call")


async def _measured(url: str | None, shape: Shape) -> tuple[list[Measured], str]:
    with progress("measuring", 3 * shape.jobs) as done, telling_of_server(False):
        return await measure(address_of(url), shape, done)
