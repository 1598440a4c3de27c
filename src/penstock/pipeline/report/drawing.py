"""How every plot of the report is drawn, and made into SVG that follows the page's style.

Matplotlib draws with stand-in colours, each of which becomes a variable of the page's style sheet,
so that one picture serves light and dark. Text stays text, in the page's own font. Nothing from a
queue is ever written into a picture: names and messages are the business of tables.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from enum import StrEnum
from html import escape
from typing import Any, Final

from penstock.errors import MissingExtra

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.text import Text
except ImportError as error:
    raise MissingExtra("spark", "the report's plots") from error

PIXELS_PER_INCH: Final = 72
"""Of SVG: so a figure's units are the page's pixels."""
SMALL: Final = 11.0
LABEL_GAP: Final = 14.0
"""Pixels between two labels, at the least."""


class Ink(StrEnum):
    """A stand-in for each colour of the page."""

    TEXT = "#010101"
    MUTED = "#010102"
    RULE = "#010103"
    ENQUEUED = "#010104"
    COMPLETED = "#010105"
    RETRIED = "#010106"
    FAILED = "#010107"
    P50 = "#010108"
    P95 = "#010109"
    P99 = "#01010a"
    HEAT_0 = "#010110"
    HEAT_1 = "#010111"
    HEAT_2 = "#010112"
    HEAT_3 = "#010113"
    HEAT_4 = "#010114"
    HEAT_5 = "#010115"
    HEAT_6 = "#010116"

    @property
    def variable(self) -> str:
        return f"var(--{self.name.lower().replace('_', '-')})"


HEAT_INKS: Final = tuple(ink for ink in Ink if ink.name.startswith("HEAT"))

_STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "path.simplify": True,
    "font.size": SMALL,
    "font.family": "DejaVu Sans",
    "text.color": Ink.MUTED,
    "axes.labelcolor": Ink.MUTED,
    "axes.edgecolor": Ink.RULE,
    "axes.linewidth": 1.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "grid.color": Ink.RULE,
    "grid.linewidth": 0.75,
    "xtick.color": Ink.RULE,
    "xtick.labelcolor": Ink.MUTED,
    "xtick.major.size": 4,
    "xtick.minor.size": 0,
    "ytick.color": Ink.MUTED,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
    "ytick.major.pad": 8,
}


class Drawing:
    """One picture of a given size, in pixels of the page; `with` it, panels are added."""

    def __init__(self, name: str, width: float, height: float) -> None:
        self._name = name
        self.width = width
        self.height = height
        with mpl.rc_context(_STYLE):
            size = width / PIXELS_PER_INCH, height / PIXELS_PER_INCH
            self._figure = Figure(size, dpi=PIXELS_PER_INCH)

    def panel(self, left: float, top: float, right: float, bottom: float) -> Axes:
        """Axes inside these margins."""
        with mpl.rc_context(_STYLE):
            axes = self._figure.add_axes(
                (
                    left / self.width,
                    bottom / self.height,
                    (self.width - left - right) / self.width,
                    (self.height - top - bottom) / self.height,
                )
            )
            axes.grid(axis="y")
            return axes

    def svg(self, title: str, description: str) -> str:
        """For the inside of a page: no header, no name spaces, ids that no other picture has."""
        FigureCanvasSVG(self._figure)
        written = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        with mpl.rc_context({**_STYLE, "svg.hashsalt": self._name}):
            self._figure.savefig(written, format="svg", dpi=PIXELS_PER_INCH, metadata=nothing)
        shape = written.getvalue()
        body = shape[shape.index(">", shape.index("<svg")) + 1 : shape.rindex("</svg>")]
        label = f"{self._name}-title {self._name}-description"
        return (
            f'<svg viewBox="0 0 {self.width:g} {self.height:g}" role="img" '
            f'aria-labelledby="{label}">'
            f'<title id="{self._name}-title">{escape(title)}</title>'
            f'<desc id="{self._name}-description">{escape(description)}</desc>'
            f"{_fitted(body, self._name)}</svg>"
        )


def unit(axes: Axes, words: str) -> None:
    """What the vertical axis counts, above it, where it is read without turning the head."""
    axes.annotate(
        words, (0, 1), (0, 9), xycoords="axes fraction", textcoords="offset points",
        color=Ink.MUTED, fontsize=SMALL,
    )  # fmt: skip


def label_ends(axes: Axes, labels: Sequence[tuple[float, str, Ink]]) -> None:
    """Names at the right, at the heights where their lines end, moved apart where they meet."""
    to_pixels = axes.transData.transform
    ends = sorted(((float(to_pixels((0, y))[1]), words, ink) for y, words, ink in labels))
    floor = axes.bbox.y0 - LABEL_GAP
    placed: list[tuple[float, str, Ink]] = []
    for y, words, ink in ends:
        floor = max(y, floor + LABEL_GAP)
        placed.append((floor, words, ink))
    for y, words, ink in placed:
        text: Text = axes.annotate(
            words, (1, 0), (8, y - axes.bbox.y0), xycoords="axes fraction",
            textcoords="offset pixels", va="center", color=ink, fontsize=SMALL,
        )  # fmt: skip
        text.set_fontweight("bold")


_HIDDEN: Final = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_FONT: Final = re.compile(r"font: ((?:bold |\d{3} )?[\d.]+px)[^;\"]*")
_LINK: Final = re.compile(r"xlink:href=")
_ID: Final = re.compile(r'(?<=\bid=")|(?<=url\(#)|(?<=href="#)')
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_BLANK: Final = re.compile(r"\n\s*")


def _fitted(body: str, name: str) -> str:
    body = _COMMENT.sub("", _HIDDEN.sub("", body))
    body = _LINK.sub("href=", body)
    body = _ID.sub(f"{name}-", body)
    body = _FONT.sub(r"font: \1 var(--sans)", body)
    for ink in Ink:
        body = body.replace(ink.value, ink.variable)
    return _BLANK.sub("\n", body)
