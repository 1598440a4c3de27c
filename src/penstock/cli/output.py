"""What commands print: tables for people, JSON lines for programs, complaints on stderr.

Everything that comes from a queue is printed as it is: no markup in it is interpreted, and control
characters do not reach the terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.insights.wording import counted

PIPED_COLUMNS: Final = 160
"""How wide tables are where there is no terminal to ask."""

SHOWN_CHARACTERS_MAX: Final = 1_000
"""How much of a value is shown to people who did not ask for all: a dozen lines."""

FLEXIBLE_MIN: Final = 6
PAUSE_SIGN: Final = "‖"
"""Before the name of a paused queue, where it is not cut off."""

STATE_STYLES: Final = {
    "blocked": "magenta",
    "pending": "yellow",
    "scheduled": "yellow",
    "running": "cyan",
    "completed": "green",
    "failed": "red",
    "cancelled": "bright_black",
}


def out() -> Console:
    return _console(stderr=False)


def err() -> Console:
    return _console(stderr=True)


def complain(message: str, notes: Iterable[str] = ()) -> None:
    """One red line on stderr, however many the message has; lines of notes point at its place."""
    console = err()
    console.print(Text(f"error: {clean(on_one_line(message))}", style="red"), soft_wrap=True)
    for note in notes:
        for line in note.splitlines():
            console.print(Text(clean(line)), soft_wrap=True)


def on_one_line(message: str) -> str:
    """What others say may have several: servers, and whoever wrote the module of an app."""
    return " ".join(line.strip() for line in message.splitlines() if line.strip())


def say(message: str, style: str = "") -> None:
    out().print(Text(message, style=style), soft_wrap=True)


def print_json(value: Any) -> None:
    """One object, one line."""
    sys.stdout.write(json_line(value))
    sys.stdout.flush()


def json_line(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode() + "\n"


def table(*columns: str, right: Iterable[str] = (), flexible: Iterable[str] = ()) -> Table:
    """An empty table. Where it is too wide, flexible columns give way."""
    made = bare_table()
    to_the_right, giving_way = set(right), set(flexible)
    for column in columns:
        fixed = column not in giving_way
        made.add_column(
            column,
            justify="right" if column in to_the_right else "left",
            no_wrap=fixed,
            overflow="ellipsis",
            min_width=None if fixed else FLEXIBLE_MIN,
        )
    return made


def bare_table() -> Table:
    """One without columns."""
    return Table(
        box=box.SIMPLE_HEAD,
        header_style="bold",
        pad_edge=False,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )


def add_row(rows: Table, *cells: object) -> None:
    rows.add_row(*(cell if isinstance(cell, Text) else text(cell) for cell in cells))


def text(value: object, style: str = "", *, wrap: bool = False) -> Text:
    """A cell on one line, cut where it has to be, or on as many lines as it needs."""
    if value is None:
        return Text("–", style="bright_black")
    is_number = isinstance(value, int) and not isinstance(value, bool)
    words = f"{value:,}" if is_number else clean(str(value))
    return Text(words, style, no_wrap=not wrap, overflow="fold" if wrap else "ellipsis")


def beginning(words: str, see_all: str) -> str:
    """Of what is long only the beginning; `see_all` says how the rest is to be had."""
    if len(words) <= SHOWN_CHARACTERS_MAX:
        return words
    size = counted(len(words.encode()), "byte")
    return f"{words[:SHOWN_CHARACTERS_MAX]}… ({size} in all; {see_all})"


def state_text(state: str, *, expired: bool = False) -> Text:
    """`expired`: its lease is dead, and nobody has recorded that yet."""
    said = f"{state} (lease expired)" if expired else state
    return Text(said, style=STATE_STYLES.get(state, ""))


def lines(words: str) -> Text:
    """Several lines as they are, such as a traceback."""
    return Text(clean_lines(words), overflow="fold")


def clean_lines(words: str) -> str:
    return "\n".join(map(clean, words.rstrip().splitlines()))


def clean(words: str) -> str:
    """On one line and without control characters, which a terminal would obey."""
    if words.isprintable():
        return words
    return "".join(letter if letter.isprintable() else " " for letter in words)


def when(at: float | None) -> str:
    """A time as people read it, in UTC."""
    if at is None:
        return "–"
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def duration(seconds: float | None) -> str:
    """At most six characters, since it stands in columns: 812ms, 1.7s, 2m05s, 3h04m, 2d03h."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h{minutes:02d}m"
    return f"{hours // 24}d{hours % 24:02d}h"


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    is_terminal = stream.isatty()
    width = None if is_terminal or os.environ.get("COLUMNS") else PIPED_COLUMNS
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)
