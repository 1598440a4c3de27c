"""The root command, and where errors end: each becomes one line on stderr and an exit code.

What nobody has foreseen is one line too, which asks for a report; `PENSTOCK_TRACEBACK=1` shows
where it came from.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final

import typer

from penstock.cli.lazy import WRONG_USAGE, Entry, LazyCommands

FAILED: Final = 1
"""The operation failed: not found, refused, the store away."""

TRACEBACK: Final = "PENSTOCK_TRACEBACK"
"""Set, errors that nobody has foreseen end with their traceback."""

_VARIABLE: Final = re.compile(r" \(env var: '[^']*'\)")

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
    "probe": Entry(_WORK, "Ask a worker whether it lives, or is ready."),
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
    typed: Sequence[str] = ()
    """The command line, as somebody has written it."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        self.typed = list(sys.argv[1:] if args is None else args)
        proceed = partial(
            super().main, args, prog_name, complete_var, False, windows_expand_args, **extra
        )
        if not standalone_mode:
            return proceed()
        try:
            code = proceed()
        except typer.Abort:
            code = _complain("aborted; nothing more was done", FAILED)
        except Exception as error:
            if not hasattr(error, "format_message"):
                raise
            # Not every version of typer has a public name for the root of these.
            code = _complain(_usage(error), getattr(error, "exit_code", WRONG_USAGE))
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        from penstock.cli.environment import with_variable
        from penstock.errors import InvalidInput, PenstockError

        try:
            return super().invoke(ctx)
        except InvalidInput as error:
            code = _complain(
                with_variable(error, self.typed), WRONG_USAGE, getattr(error, "__notes__", ())
            )
        except PenstockError as error:
            code = _complain(with_variable(error, self.typed), FAILED)
        except BrokenPipeError:
            raise
        except OSError as error:
            is_of_file = error.filename is not None and error.strerror is not None
            code = _complain(
                f"{error.filename}: {error.strerror}" if is_of_file else str(error), FAILED
            )
        except Exception as error:
            is_typers = isinstance(error, typer.Exit | typer.Abort)
            if is_typers or hasattr(error, "format_message") or os.environ.get(TRACEBACK):
                raise
            code = _complain(_fault(error), FAILED)
        raise typer.Exit(code)


app = typer.Typer(
    cls=Root,
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


def _usage(error: Any) -> str:
    """What is wrong with a command line, and where it says what is right."""
    # Said below, and only where the value did come from the variable.
    words = _VARIABLE.sub("", " ".join(error.format_message().split())).removesuffix(".")
    context, option = getattr(error, "ctx", None), getattr(error, "param", None)
    if context is None:
        return words
    source = None if option is None else context.get_parameter_source(option.name)
    if option is not None and source is not None and source.name == "ENVIRONMENT":
        words = f"{words} (it comes from {option.envvar} in the environment)"
    return f"{words}; see `{context.command_path} -h`"


def _fault(error: Exception) -> str:
    said = f"{type(error).__name__}: {error}"
    return f"penstock did not foresee this: {said}; please report it, with what {TRACEBACK}=1 shows"


def _complain(message: str, code: int, notes: Sequence[str] = ()) -> int:
    from penstock.cli.output import complain

    complain(message, notes)
    return code
