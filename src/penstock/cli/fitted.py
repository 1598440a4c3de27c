"""Tables that fit the terminal by giving up what matters least.

Where there is not room for all, columns are shortened, with an ellipsis, or left out, in the order
that the table says. What identifies a row is never left out, and what people copy from it is whole:
where there is no room for it beside the others, it has a line of its own above them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
INDENT_CHARACTERS: Final = 2
"""Of what stands below the line that a row's `whole` column has to itself."""


class FittedTable:
    """`giving_way` says how short columns may become, in characters, or that they can be
    `LEFT_OUT`, in the order in which that is done; the others are never cut.
    `middle` are cut in the middle, since both of their ends tell them apart. `whole` is a column
    that is never cut, and gets lines of its own where the others need the room.
    """

    def __init__(
        self,
        *columns: str,
        giving_way: Mapping[str, int],
        right: Iterable[str] = (),
        middle: Iterable[str] = (),
        whole: str | None = None,
    ) -> None:
        self._columns = columns
        self._giving_way = {name: giving_way[name] for name in giving_way if name in columns}
        self._right = frozenset(right)
        self._middle = frozenset(middle)
        self._whole = whole
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
        if self._whole is not None and self._least(self._columns) > width:
            return self._fit_below(self._whole, width)
        widths = self._widths(self._columns, width)
        made = bare_table()
        for name, each in widths.items():
            justify: JustifyMethod = "right" if name in self._right else "left"
            made.add_column(text(name), justify=justify, no_wrap=True, width=each)
        for number, row in enumerate(self._rows):
            if number in self._sections:
                made.add_section()
            made.add_row(*(self._cut(row[name], name, widths[name]) for name in widths))
        return made

    def _fit_below(self, whole: str, width: int) -> Table:
        """Each row on two lines or more: what is whole, then the rest."""
        others = [name for name in self._columns if name != whole]
        widths = self._widths(others, width - INDENT_CHARACTERS)
        made = bare_table()
        names = {name: text(name) for name in self._columns}
        made.add_column(self._in_lines(whole, names, widths), overflow="fold")
        for number, row in enumerate(self._rows):
            if number in self._sections:
                made.add_section()
            made.add_row(self._in_lines(whole, row, widths))
        return made

    def _in_lines(self, whole: str, row: Mapping[str, Text], widths: Mapping[str, int]) -> Text:
        cells = []
        for name, width in widths.items():
            cell = self._cut(row[name], name, width).copy()
            cell.align("right" if name in self._right else "left", width)
            cells.append(cell)
        below = Text(" " * INDENT_CHARACTERS) + Text(" " * GAP_CHARACTERS).join(cells)
        below.rstrip()
        return Text("\n", overflow="fold").join([row[whole], below])

    def _least(self, columns: Sequence[str]) -> int:
        """How much room they need, whatever gives way."""
        least = {
            name: min(self._giving_way.get(name, each), each)
            for name, each in self._natural(columns).items()
        }
        return _total({name: each for name, each in least.items() if each != LEFT_OUT})

    def _natural(self, columns: Sequence[str]) -> dict[str, int]:
        return {
            name: max(cell_len(name), *(row[name].cell_len for row in self._rows), 0)
            for name in columns
        }

    def _widths(self, columns: Sequence[str], room: int) -> dict[str, int]:
        """How wide each column that is shown may be."""
        widths = self._natural(columns)
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
