"""`penstock pipeline replay`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import asdict

from penstock.cli.acting import confirm
from penstock.cli.options import Json, Tenant, Yes
from penstock.cli.output import add_row, out, print_json, say, table, text
from penstock.cli.pipeline.options import DEFAULT_MASTER, Master, QueueUrl
from penstock.cli.progress import progress

if TYPE_CHECKING:
    from penstock.pipeline.operations.replaying import Chosen, Replayed


def command(
    url: QueueUrl,
    predicate: Annotated[
        str,
        typer.Argument(metavar="SQL", help="Such as: type = 'resize' and error like '%timeout%'"),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be replayed.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="At most so many, the oldest.")
    ] = None,
    warehouse: Annotated[
        str | None,
        typer.Option(
            "--warehouse", metavar="WAREHOUSE", help="Look in its jobs, not in the queue's."
        ),
    ] = None,
    tenant: Tenant = None,
    yes: Yes = False,
    master: Master = DEFAULT_MASTER,
    json: Json = False,
) -> None:
    """Runs failed and cancelled jobs again of which a condition in Spark SQL is true. The columns
    are those of the table jobs: type, queue, tenant, state, kind, error, attempt, ended_at and so
    on. Doing it twice does no harm. Exit code 1 if some could not be replayed.
    """
    from penstock.pipeline.operations.replaying import chosen
    from penstock.pipeline.session import session

    spark = session(master)
    with chosen(spark, url, predicate, tenant=tenant, warehouse=warehouse, limit=limit) as jobs:
        count = jobs.count()
        if dry_run or not json:
            _show(jobs, count, json=json)
        if dry_run or count == 0:
            return
        confirm(f"replay {count:,} jobs?", yes)
        with progress("replaying", count) as done:
            outcome = jobs.replay(done)
    _say(outcome, json=json)
    if outcome.gone or outcome.held or outcome.failed:
        raise typer.Exit(1)


def _show(jobs: Chosen, count: int, *, json: bool) -> None:
    found = jobs.by_reason()
    if json:
        print_json({"jobs": count, "reasons": [row.asDict() for row in found]})
        return
    if found:
        rows = table(
            "jobs", "state", "type", "kind", "example", right=["jobs"], flexible=["example"]
        )
        for row in found:
            add_row(rows, *(row[name] for name in ("jobs", "state", "type", "kind", "example")))
        out().print(rows)
    say(f"{count:,} jobs match")


def _say(outcome: Replayed, *, json: bool) -> None:
    counts = asdict(outcome)
    if json:
        print_json(counts)
    else:
        words = ", ".join(f"{n:,} {name}" for name, n in counts.items() if n) or "nothing done"
        out().print(text(words, wrap=True))
