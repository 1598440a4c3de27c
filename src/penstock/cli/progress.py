"""Progress bars for whatever may take longer than a moment: on stderr, and only on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from penstock.cli.output import err


class Done(Protocol):
    def __call__(self, count: int, of: int | None = None, /) -> None:
        """So many more are done, of that many if it has turned out only now."""


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Done]:
    """Gives a function to be called with how many more are done."""
    console = err()
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        expand=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task(what, total=total)
        yield lambda count, of=None: bar.update(task, advance=count, total=of)
