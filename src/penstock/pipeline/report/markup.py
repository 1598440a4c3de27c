"""HTML, piece by piece. What is not `Markup` is text, and text is escaped: here and only here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final
from unicodedata import category

from msgspec import Struct

CELL_CHARACTERS_MAX: Final = 400
"""An error's message can be a whole stack trace; the queue itself has the rest."""
REPLACEMENT: Final = "\ufffd"


class Markup(str):
    """Text that already is HTML."""

    __slots__ = ()


Piece = str | int
"""Escaped, unless it is `Markup`."""


class Column(Struct, frozen=True):
    name: str
    style: str = ""
    """`number`, `words`, `time` or `job`."""


def html(value: Piece) -> Markup:
    if isinstance(value, Markup):
        return value
    return Markup(escape(_printable(str(value))))


def element(tag: str, *content: Piece, style: str = "") -> Markup:
    opening = f'<{tag} class="{escape(style)}">' if style else f"<{tag}>"
    return Markup(f"{opening}{joined(content)}</{tag}>")


def joined(pieces: Iterable[Piece], by: str = "") -> Markup:
    return Markup(by.join(html(piece) for piece in pieces))


def cut(words: str) -> str:
    return words if len(words) <= CELL_CHARACTERS_MAX else words[: CELL_CHARACTERS_MAX - 1] + "…"


def alarming(words: str, *, when: bool) -> Piece:
    return element("b", words, style="failed") if when else words


def bar(share: float) -> Markup:
    """A share as a length; the number stands beside it, so readers of screens skip it."""
    width = min(max(share, 0.0), 1.0)
    return Markup(f'<span class="bar" aria-hidden="true"><i style="width:{width:.1%}"></i></span>')


def table(caption: str, columns: Sequence[Column], rows: Iterable[Sequence[Piece]]) -> Markup:
    """The first cell of each row names it."""
    heads = (
        Markup(f'<th scope="col"{_class(column)}>{html(column.name)}</th>') for column in columns
    )
    body = (
        element("tr", *(_cell(place, columns[place], cell) for place, cell in enumerate(row)))
        for row in rows
    )
    return element(
        "div",
        element(
            "table",
            element("caption", caption),
            element("thead", element("tr", *heads)),
            element("tbody", joined(body, "\n")),
        ),
        style="scroll",
    )


def figure(svg: str, name: str = "", explanation: str = "") -> Markup:
    caption = element("figcaption", name, " ", element("span", explanation)) if name else ""
    return element("figure", caption, element("div", Markup(svg), style="plot"))


def details(summary: str, content: Markup) -> Markup:
    return element("details", element("summary", summary), content)


def section(name: str, title: str, sentence: Piece, *content: Piece) -> Markup:
    inside = joined((element("h2", title), element("p", sentence), *content), "\n")
    label = escape(title)
    return Markup(f'<section id="{escape(name)}" aria-label="{label}">\n{inside}\n</section>')


def _cell(place: int, column: Column, cell: Piece) -> Markup:
    if place == 0:
        return Markup(f'<th scope="row"{_class(column)}>{html(cell)}</th>')
    return Markup(f"<td{_class(column)}>{html(cell)}</td>")


def _class(column: Column) -> str:
    return f' class="{escape(column.style)}"' if column.style else ""


def _printable(words: str) -> str:
    """Without control characters, turned-around text and halves of letters."""
    return "".join(REPLACEMENT if category(letter).startswith("C") else letter for letter in words)
