"""`penstock pipeline check`."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.options import Json
from penstock.cli.output import add_row, out, print_json, say, table, text
from penstock.cli.pipeline.options import DEFAULT_MASTER, Master, QueueUrl


def command(
    url: QueueUrl,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="Show so many violations at most.")
    ] = 100,
    master: Master = DEFAULT_MASTER,
    json: Json = False,
) -> None:
    """Reads the whole log on Spark and asks of it what must hold of every queue at all times: one
    lease at a time, terminal is final, keys are unique, claims in order, an unbroken chain. Names
    the jobs of which it does not hold, and says what can't be asked of this queue, and why. Exit
    code 1 if there are any.
    """
    from penstock.pipeline.checking.check import planned
    from penstock.pipeline.failures import plainly
    from penstock.pipeline.session import session

    with plainly("checking the log"):
        check = planned(url)
        violations = check.violations(session(master)).persist()
        count = violations.count()
        found = violations.orderBy("commit", "position", "invariant").limit(limit).collect()
        violations.unpersist()
    if json:
        for row in found:
            print_json(row.asDict())
    elif found:
        columns = ("invariant", "tenant", "id", "commit", "position", "message")
        rows = table(*columns, right=["invariant", "commit", "position"], flexible=["message"])
        for row in found:
            cells = [row[name] for name in columns[:-1]]
            add_row(rows, *cells, text(row["message"], wrap=True))
        out().print(rows)
    if not json:
        for invariant, reason in check.asked.not_asked().items():
            say(f"not asked: invariant {invariant}, since {reason}", "dim")
        say(f"{count:,} violations", "red" if count else "green")
    if count:
        raise typer.Exit(1)
