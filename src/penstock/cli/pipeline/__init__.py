"""`penstock pipeline …`: the data pipeline on Spark, one thin file per command."""

from __future__ import annotations

from typing import Final

import typer

from penstock.cli.lazy import Entry, LazyCommands

_TABLES, _JOBS = "Tables", "Jobs"

COMMANDS: Final = {
    "run": Entry(_TABLES, "Keep a warehouse of tables up with a queue."),
    "report": Entry(_TABLES, "Make one page of figures and plots out of a warehouse."),
    "replay": Entry(_JOBS, "Run failed or cancelled jobs again, by a condition in SQL."),
    "check": Entry(_JOBS, "Check a whole log against the invariants."),
    "export": Entry(_JOBS, "Write a queue's jobs, events or attempts as files."),
    "import": Entry(_JOBS, "Add jobs from files.", "import_jobs"),
}
"""Each has a module of its name in this package, with a function `command`."""


class PipelineCommands(LazyCommands):
    package = "penstock.cli.pipeline"
    entries = COMMANDS


app = typer.Typer(
    cls=PipelineCommands,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def pipeline() -> None:
    """Nothing comes before its commands."""
