"""Commands that do something to jobs, by their ids or by what the jobs have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import typer
from rich.cells import cell_len

from penstock.cli.fitted import SHORTEST
from penstock.cli.output import add_row, complain, out, print_json, table, text
from penstock.cli.progress import progress
from penstock.client.queue import Queue
from penstock.errors import PenstockError
from penstock.insights.listing import listed

JOBS_PER_COMMIT: Final = 1_000
OUTCOME_CHARACTERS_MIN: Final = 24
"""How much room there is for a word on what became of a job, at least."""
SHOWN_MAX: Final = 20
"""Of more jobs than this, people see a count and not a table."""


async def act(
    ids: list[str],
    what: str,
    send: Callable[[list[str]], Awaitable[list[Any]]],
    *,
    is_fine: Callable[[Any], bool],
    words: Callable[[Any], str],
    json: bool,
    sentence: Callable[[str, Any], str] | None = None,
) -> None:
    """Sends ids in batches and says what became of each; exit code 1 if one was not fine.

    `words` are for programs, and for people where there is no `sentence`.
    """
    outcomes: list[Any] = []
    with progress(what, len(ids)) as done:
        for start in range(0, len(ids), JOBS_PER_COMMIT):
            batch = ids[start : start + JOBS_PER_COMMIT]
            outcomes += await send(batch)
            done(len(batch))
    said = [
        (
            id,
            words(outcome) if json or sentence is None else sentence(id, outcome),
            is_fine(outcome),
        )
        for id, outcome in zip(ids, outcomes, strict=True)
    ]
    if json:
        for id, outcome, fine in said:
            print_json({"id": id, "outcome": outcome, "ok": fine})
    else:
        _show(said)
    if not all(fine for _, _, fine in said):
        raise typer.Exit(1)


def error_or(word: str) -> Callable[[Any], str]:
    """What to call an outcome that is an error or else nothing to speak of."""
    return lambda outcome: str(outcome) if isinstance(outcome, PenstockError) else word


def is_no_error(outcome: Any) -> bool:
    return not isinstance(outcome, PenstockError)


async def failed_ids(queue: Queue, name: str | None, type: str | None) -> list[str]:
    return [job.id async for job in listed(queue, state="failed", name=name, type=type)]


def confirm(question: str, yes: bool) -> None:
    """Asks on a terminal; where nobody can be asked, --yes is needed."""
    if yes or typer.confirm(question, err=True):
        return
    complain("nothing was done")
    raise typer.Exit(1)


def _show(said: Iterable[tuple[str, str, bool]]) -> None:
    rows = list(said)
    bad = [row for row in rows if not row[2]]
    shown = rows if len(rows) <= SHOWN_MAX else bad[:SHOWN_MAX]
    console = out()
    made = table("id", "outcome", flexible=["id", "outcome"])
    # Whole beside the outcome, unless that would leave no room for it.
    longest = max((cell_len(id) for id, _, _ in shown), default=0)
    made.columns[0].width = max(min(longest, console.width - OUTCOME_CHARACTERS_MIN), SHORTEST)
    for id, outcome, fine in shown:
        add_row(made, text(id, wrap=True), text(outcome, "" if fine else "red", wrap=True))
    if shown:
        console.print(made)
    if len(rows) > SHOWN_MAX:
        console.print(f"{len(rows) - len(bad):,} done, {len(bad):,} not")
