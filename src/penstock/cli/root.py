"""The root command, and where errors end: each `PenstockError` becomes one line on stderr and an
exit code.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from penstock.cli.lazy import Entry, LazyCommands

FAILED: Final = 1
"""The operation failed: not found, refused, the store away."""
WRONG_USAGE: Final = 2
"""The command line can't be right."""


_JOBS, _LOOKING, _WORK, _DATA, _CARE = "Jobs", "Looking", "Work", "Data", "Care"

COMMANDS: Final = {
    "enqueue": Entry(_JOBS, "Add a job, or many from a file."),
    "status": Entry(_JOBS, "Show one job."),
    "history": Entry(_JOBS, "Show everything that happened to a job."),
    "list": Entry(_JOBS, "List jobs, oldest first."),
    "cancel": Entry(_JOBS, "Cancel jobs, waiting or running."),
    "replay": Entry(_JOBS, "Run failed or cancelled jobs again."),
    "archive": Entry(_JOBS, "Put ended jobs out of sight."),
    "unarchive": Entry(_JOBS, "Bring archived jobs back."),
    "stats": Entry(_LOOKING, "Count jobs by state and queue."),
    "top": Entry(_LOOKING, "Watch the queue live."),
    "workers": Entry(_LOOKING, "List the workers that have registered."),
    "events": Entry(_LOOKING, "Follow what happens, event by event."),
    "worker": Entry(_WORK, "Run the tasks of an app."),
    "monitor": Entry(_WORK, "Take back dead leases and vacuum, without running jobs."),
    "pause": Entry(_WORK, "Let no job of a queue be claimed."),
    "resume": Entry(_WORK, "Let jobs of a paused queue be claimed again."),
    "pipeline": Entry(_DATA, "Keep tables of what happened, on Spark."),
    "init": Entry(_CARE, "Make a queue, and set its bucket up."),
    "export": Entry(_CARE, "Write jobs or events as JSON lines."),
    "import": Entry(_CARE, "Add jobs from JSON lines, once each.", "import_jobs"),
    "migrate": Entry(_CARE, "Move a whole queue to another address."),
    "vacuum": Entry(_CARE, "Delete what has outlived the log's retention."),
    "doctor": Entry(_CARE, "Check the store and what is stored."),
    "bench": Entry(_CARE, "Measure how fast a queue on this store is."),
    "demo": Entry(_CARE, "See a queue at work, on a temporary folder."),
}


class Root(LazyCommands):
    """All commands, and where their errors end."""

    package = "penstock.cli"
    entries = COMMANDS

    def invoke(self, ctx: Any) -> Any:
        from penstock.errors import InvalidInput, PenstockError

        try:
            return super().invoke(ctx)
        except InvalidInput as error:
            raise _ended(error, WRONG_USAGE) from None
        except PenstockError as error:
            raise _ended(error, FAILED) from None
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _ended(error, FAILED) from None


app = typer.Typer(
    cls=Root,
    no_args_is_help=True,
    help="A durable job queue for people who already have a bucket.",
    epilog="Exit codes: 0 it worked, 1 it failed, 2 wrong usage.",
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _say_version(wanted: bool) -> None:
    if wanted:
        import penstock

        typer.echo(f"penstock {penstock.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Say the version."),
    ] = False,
) -> None:
    """What comes before every command: nothing but the version."""


def _ended(error: Exception, code: int) -> typer.Exit:
    from penstock.cli.output import complain

    complain(str(error))
    return typer.Exit(code)
