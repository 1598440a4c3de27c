"""Tables that fit the terminal by giving up what matters least.

Where there is not room for all, columns are shortened, with an ellipsis, or left out, in the order
that the table says. What identifies a row is never left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.table import Table
from rich.text import Text

from penstock.cli.output import bare_table, text

GAP_CHARACTERS: Final = 2
"""Between two columns."""
SHORTEST: Final = 4
"""No column is shortened to less, however narrow the terminal is."""
LEFT_OUT: Final = 0
ELLIPSIS: Final = "…"


class FittedTable:
    """`giving_way` says how short columns may become, in characters, or that they can be
    `LEFT_OUT`, in the order in which that is done; the others are never cut.
    `middle` are cut in the middle, since both of their ends tell them apart.
    """

    def __init__(
        self,
        *columns: str,
        giving_way: Mapping[str, int],
        right: Iterable[str] = (),
        middle: Iterable[str] = (),
    ) -> None:
        self._columns = columns
        self._giving_way = {name: giving_way[name] for name in giving_way if name in columns}
        self._right = frozenset(right)
        self._middle = frozenset(middle)
        self._rows: list[dict[str, Text]] = []
        self._sections: set[int] = set()

    def add_row(self, *cells: object) -> None:
        shown = (cell if isinstance(cell, Text) else text(cell) for cell in cells)
        self._rows.append(dict(zip(self._columns, shown, strict=True)))

    def add_section(self) -> None:
        """What follows is set apart."""
        self._sections.add(len(self._rows))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.fit(options.max_width)

    def fit(self, width: int) -> Table:
        widths = self._widths(width)
        made = bare_table()
        for name, each in widths.items():
            justify: JustifyMethod = "right" if name in self._right else "left"
            made.add_column(text(name), justify=justify, no_wrap=True, width=each)
        for number, row in enumerate(self._rows):
            if number in self._sections:
                made.add_section()
            made.add_row(*(self._cut(row[name], name, widths[name]) for name in widths))
        return made

    def _widths(self, room: int) -> dict[str, int]:
        """How wide each column that is shown may be."""
        widths = {
            name: max(cell_len(name), *(row[name].cell_len for row in self._rows), 0)
            for name in self._columns
        }
        shortest = dict(widths)
        for name, least in self._giving_way.items():
            if _total(shortest) <= room:
                break
            shortest[name] = min(least, widths[name])
            if least == LEFT_OUT:
                del shortest[name], widths[name]
        # What was left out may have made more room than was needed.
        for limits in (self._giving_way, dict.fromkeys(self._giving_way, SHORTEST)):
            for name, least in limits.items():
                excess = _total(widths) - room
                if name in widths and excess > 0:
                    widths[name] = max(widths[name] - excess, min(least, widths[name]))
        return widths

    def _cut(self, cell: Text, name: str, width: int) -> Text:
        if cell.cell_len <= width:
            return cell
        if name in self._middle:
            return Text(cut_middle(cell.plain, width), cell.style, no_wrap=True)
        shortened = cell.copy()
        shortened.truncate(width, overflow="ellipsis")
        return shortened


def cut_middle(words: str, width: int) -> str:
    """Its beginning and its end, of which the end is as long or longer."""
    if cell_len(words) <= width:
        return words
    room = width - cell_len(ELLIPSIS)
    head, tail = _taken(words, room // 2), _taken(words[::-1], room - room // 2)[::-1]
    return f"{head}{ELLIPSIS}{tail}"


def _taken(words: str, room: int) -> str:
    """As many of the first letters as there is room for; some take two places."""
    taken = ""
    for letter in words:
        if cell_len(taken + letter) > room:
            break
        taken += letter
    return taken


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + GAP_CHARACTERS * (len(widths) - 1)
