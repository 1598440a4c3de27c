"""When the work is done: completed jobs by day and hour, the more the stronger."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from datetime import date
from typing import Final

from matplotlib.axes import Axes
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path

from penstock.pipeline.report import formats
from penstock.pipeline.report.drawing import SMALL, Drawing, Ink
from penstock.pipeline.report.figures import Heat

WIDTH: Final = 1080.0
LEFT: Final = 78.0
RIGHT: Final = 16.0
"""Room for half of a day's name."""
TOP: Final = 36.0
BOTTOM: Final = 28.0
DAYS_AS_ROWS_MAX: Final = 14
"""Few days are rows, many are columns, so that the picture stays wide and low."""
CELL: Final = 24.0
LOW_CELL: Final = 14.0
GAP: Final = 2.0
"""Pixels between two cells."""
LEVELS: Final = (Ink.HEAT_1, Ink.HEAT_2, Ink.HEAT_3, Ink.HEAT_4, Ink.HEAT_5, Ink.HEAT_6)
WEEK_LABELS_MAX: Final = 14
HOUR_LABELS_EVERY: Final = 3
KEY_STEP: Final = 84.0
KEY_HEIGHT: Final = 24.0

Corner = tuple[float, float]


def heat_map(heat: Heat) -> str:
    turned = len(heat.days) > DAYS_AS_ROWS_MAX
    columns, rows = (len(heat.days), 24) if turned else (24, len(heat.days))
    drawing = Drawing("heat", WIDTH, TOP + rows * (LOW_CELL if turned else CELL) + BOTTOM)
    axes = drawing.panel(LEFT, TOP, RIGHT if turned else 0, BOTTOM)
    axes.grid(visible=False)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(length=0)
    axes.set_xlim(0, columns)
    axes.set_ylim(rows, 0)
    step = heat_step(max(count or 0 for day in heat.counts for count in day))
    cells: dict[Ink, list[Corner]] = defaultdict(list)
    for day, counts in enumerate(heat.counts):
        for hour, count in enumerate(counts):
            if count is not None:
                cells[level(count, step)].append((day, hour) if turned else (hour, day))
    for ink, corners in sorted(cells.items()):
        axes.add_patch(_squares(axes, corners, columns, rows, ink))
    _name(axes, heat.days, turned=turned)
    _key(drawing.panel(LEFT, 0, 0, drawing.height - KEY_HEIGHT), step)
    return drawing.svg("Completed jobs by day and hour", "Stronger is more; hours are in UTC.")


def heat_step(most: int) -> int:
    """How many jobs more make the next level: round, and such that the levels reach the most."""
    least = max(math.ceil(most / len(LEVELS)), 1)
    power = int(10 ** math.floor(math.log10(least)))
    return next(step for factor in (1, 2, 5, 10) if (step := factor * power) >= least)


def level(count: int, step: int) -> Ink:
    return Ink.HEAT_0 if count <= 0 else LEVELS[min((count - 1) // step, len(LEVELS) - 1)]


def _squares(axes: Axes, corners: Iterable[Corner], columns: int, rows: int, ink: Ink) -> PathPatch:
    """Many as one path: ninety days have two thousand."""
    wide = min(GAP, 0.25 * axes.bbox.width / columns) * columns / axes.bbox.width
    high = GAP * rows / axes.bbox.height
    squares = [
        Path(
            [(x, y), (x + 1 - wide, y), (x + 1 - wide, y + 1 - high), (x, y + 1 - high), (x, y)],
            closed=True,
        )
        for x, y in corners
    ]
    return PathPatch(Path.make_compound_path(*squares), facecolor=ink, linewidth=0)


def _name(axes: Axes, days: tuple[date, ...], *, turned: bool) -> None:
    hours = range(0, 24, HOUR_LABELS_EVERY)
    weeks = math.ceil(len(days) / 7 / WEEK_LABELS_MAX)
    shown = range(0, len(days), 7 * weeks if turned else 1)
    form = "%-d %b" if turned else "%a %-d %b"
    hour_ticks = [hour + 0.5 for hour in hours], [f"{hour:02d}:00" for hour in hours]
    day_ticks = [day + 0.5 for day in shown], [days[day].strftime(form) for day in shown]
    axes.set_xticks(*(day_ticks if turned else hour_ticks))
    axes.set_yticks(*(hour_ticks if turned else day_ticks))


def _key(axes: Axes, step: int) -> None:
    """The levels, in pixels of their own: each with the most that it stands for."""
    axes.set_xlim(0, axes.bbox.width)
    axes.set_ylim(0, axes.bbox.height)
    axes.set_axis_off()
    most = [formats.short_count(step * number) for number in range(1, len(LEVELS) + 1)]
    names = ["0", *(f"≤{formats.NARROW_SPACE}{each}" for each in most)]
    middle = axes.bbox.height / 2
    for number, (ink, words) in enumerate(zip((Ink.HEAT_0, *LEVELS), names, strict=True)):
        x = number * KEY_STEP
        axes.add_patch(Rectangle((x, middle - 6), 12, 12, facecolor=ink, linewidth=0))
        axes.text(x + 18, middle, words, va="center_baseline", color=Ink.MUTED, fontsize=SMALL)
