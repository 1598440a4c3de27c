"""The table for people and the file for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from bench.figures import Row, Series

RESULTS: Final = Path(__file__).resolve().parent / "results" / "latest.json"
PAGE: Final = RESULTS.with_suffix(".md")
"""The same as a table for docs/benchmarks.md."""
TABLE_COLUMNS_MIN: Final = 160
"""Narrower, and the figures would break in the middle; a file or a pipe is never narrower."""
HEADINGS: Final = ("requirement", "penstock", "beside", "its figure", "ratio", "bar", "verdict")
_COLOURS: Final = {"pass": "green", "FAIL": "bold red", "goal missed": "yellow"}


def table(rows: list[Row]) -> Table:
    shown = Table(
        title="best of the rounds (median in brackets)", title_justify="left", box=SIMPLE_HEAD
    )
    for heading in HEADINGS:
        is_figure = heading in ("penstock", "its figure", "ratio")
        shown.add_column(heading, justify="right" if is_figure else "left", overflow="fold")
    for row in rows:
        *cells, verdict = _cells(row)
        colour = _COLOURS.get(verdict, "dim")
        shown.add_row(*cells, f"[{colour}]{verdict}[/]" if verdict else "")
    return shown


def console() -> Console:
    found = Console()
    return found if found.width >= TABLE_COLUMNS_MIN else Console(width=TABLE_COLUMNS_MIN)


def save(conditions: Mapping[str, str], rows: list[Row]) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    (RESULTS.parent / ".gitignore").write_text("*\n")
    document = {"conditions": conditions, "rows": [_plain(row) for row in rows]}
    RESULTS.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    lines = [HEADINGS, ("---", "--:", "---", "--:", "--:", "---", "---"), *map(_cells, rows)]
    PAGE.write_text("".join(f"| {' | '.join(line)} |\n" for line in lines))


def _cells(row: Row) -> tuple[str, ...]:
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}×"
    figures = (str(row.figure), row.rival_name, str(row.rival), ratio)
    return (row.requirement, *figures, row.bar, row.verdict)


def _plain(row: Row) -> dict[str, object]:
    plain = asdict(row)
    for name, value in (("figure", row.figure), ("rival", row.rival)):
        if isinstance(value, Series):
            plain[name] |= {"best": value.best, "median": value.median}
    return plain
