"""The plots of a report, from series to SVG.

Counts over time are steps, since each value stands for its whole bucket: one minute of data is a
column, ninety days are a skyline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from penstock.pipeline.report import formats
from penstock.pipeline.report.drawing import Drawing, Ink, label_ends, unit
from penstock.pipeline.report.figures import Series
from penstock.pipeline.report.rows import Quantiles, Traffic

WIDE: Final = 1080.0
HALF: Final = 524.0
LEFT: Final = 64.0
"""Pixels for the numbers of the vertical axis."""
RIGHT: Final = 84.0
"""Pixels for the names of the lines."""
BUCKETS_MIN: Final = 12
"""An axis is at least so long, so that a single bucket is a column, not a wall."""
FINE_TICKS_MAX: Final = 6
DAY_SECONDS: Final = 86_400
SHORTEST_SECONDS: Final = 1e-4
"""What is shorter is drawn so, since a logarithmic axis has no zero."""

_TICKS_SECONDS: Final = (
    1e-4, 1e-3, 1e-2, 0.1, 1, 10, 60, 600, 3_600, 36_000, 86_400, 864_000, 8_640_000,
)  # fmt: skip
_FINE_TICKS_SECONDS: Final = tuple(
    sorted(
        [decade * step for decade in (1e-4, 1e-3, 1e-2, 0.1, 1) for step in (1, 2, 5)]
        + [10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 18_000, 36_000, 86_400]
    )
)

Number = float | None


def throughput(series: Series[Traffic]) -> str:
    drawing = Drawing("throughput", WIDE, 360)
    above = drawing.panel(LEFT, 30, RIGHT, 160)
    below = drawing.panel(LEFT, 238, RIGHT, 30)
    names = ("enqueued", "completed"), ("retried", "failed")
    for axes, (back, front) in zip((above, below), names, strict=True):
        first, second = _counts(series, back), _counts(series, front)
        _steps(axes, series, second, Ink[front.upper()], fill=0.22)
        _steps(axes, series, first, Ink[back.upper()], fill=0.0 if axes is above else 0.1)
        _from_zero(axes, [*first, *second])
        label_ends(
            axes,
            [(first[-1], back, Ink[back.upper()]), (second[-1], front, Ink[front.upper()])],
        )
        unit(axes, f"{'jobs' if axes is above else 'attempts'} per {series.bucket}")
        _over_time(axes, series)
    above.tick_params(axis="x", labelbottom=False)
    return drawing.svg(
        "Throughput over time",
        f"Jobs enqueued and completed, attempts retried and jobs failed, per {series.bucket}.",
    )


def quantiles(name: str, series: Series[Traffic], of: Callable[[Traffic], Quantiles | None]) -> str:
    drawing = Drawing(name, HALF, 270)
    axes = drawing.panel(LEFT, 30, 44, 30)
    axes.set_yscale("log")
    each = [of(traffic) for traffic in series.values]
    seen: list[float] = []
    ends: list[tuple[float, str, Ink]] = []
    for label, ink in (("p50", Ink.P50), ("p95", Ink.P95), ("p99", Ink.P99)):
        values = [
            None if those is None else max(getattr(those, label), SHORTEST_SECONDS)
            for those in each
        ]
        known = [value for value in values if value is not None]
        _steps(axes, series, values, ink)
        seen += known
        ends += [(value, label, ink) for value in known[-1:]]
    _seconds_axis(axes, seen)
    label_ends(axes, ends)
    unit(axes, f"per {series.bucket}, logarithmic scale")
    _over_time(axes, series)
    return drawing.svg(
        f"{name.capitalize()} times", f"Percentiles 50, 95 and 99 per {series.bucket}."
    )


def amounts(
    name: str, title: str, words: str, series: Series[float], shown: Callable[[float], str]
) -> str:
    """One series of amounts, as an area."""
    drawing = Drawing(name, WIDE, 190)
    axes = drawing.panel(LEFT, 30, 0, 30)
    _steps(axes, series, series.values, Ink.COMPLETED, fill=0.22)
    _from_zero(axes, series.values)
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value)))
    unit(axes, words)
    _over_time(axes, series)
    return drawing.svg(title, f"{title}, {words}.")


def attainment(series: Series[Number]) -> str:
    drawing = Drawing("attainment", WIDE, 190)
    axes = drawing.panel(LEFT, 30, 0, 30)
    _steps(axes, series, series.values, Ink.COMPLETED)
    known = [value for value in series.values if value is not None]
    room = max((1 - min(known)) * 0.1, 0.0005)
    axes.set_ylim(max(min(known) - room, 0), 1 + room)
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _whole_percent(value)))
    unit(axes, "jobs within their objectives, by day")
    _over_time(axes, series)
    return drawing.svg("Attainment", "Share of jobs that met their objectives, by day.")


def _counts(series: Series[Traffic], name: str) -> list[float]:
    return [float(getattr(traffic, name)) for traffic in series.values]


def _steps(
    axes: Axes, series: Series[Any], values: Sequence[Number], ink: Ink, *, fill: float = 0.0
) -> None:
    edges = [*_days(series.starts), _days([series.starts[-1] + series.bucket.length])[0]]
    heights = [float("nan") if value is None else value for value in values]
    if fill:
        axes.stairs(heights, edges, fill=True, color=ink, alpha=fill, linewidth=0)
    axes.stairs(heights, edges, baseline=None, color=ink, linewidth=1.5)


def _over_time(axes: Axes, series: Series[Any]) -> None:
    first = series.starts[0]
    until = series.starts[-1] + series.bucket.length
    axes.set_xlim(*_days([min(first, until - series.bucket.length * BUCKETS_MIN), until]))
    most = 5 if _is_half(axes) else 9
    locator = AutoDateLocator(tz=UTC, minticks=3, maxticks=most)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(
        ConciseDateFormatter(  # type: ignore[no-untyped-call]
            locator,
            tz=UTC,
            formats=["%Y", "%b", "%-d %b", "%H:%M", "%H:%M", "%H:%M:%S"],
            zero_formats=["", "%b %Y", "%-d %b", "%-d %b", "%H:%M", "%H:%M"],
            show_offset=False,
        )
    )


def _from_zero(axes: Axes, values: Sequence[float]) -> None:
    axes.set_ylim(0, max(*values, 0.0) * 1.06 or 1)
    axes.yaxis.set_major_locator(MaxNLocator(4 if axes.bbox.height > 120 else 3, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: formats.short_count(value)))


def _seconds_axis(axes: Axes, values: Sequence[float]) -> None:
    low, high = (min(values) / 1.3, max(values) * 1.3) if values else (0.1, 10)
    axes.set_ylim(low, high)
    fine = [tick for tick in _FINE_TICKS_SECONDS if low <= tick <= high]
    coarse = [tick for tick in _TICKS_SECONDS if low <= tick <= high]
    axes.yaxis.set_major_locator(FixedLocator(fine if len(fine) <= FINE_TICKS_MAX else coarse))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: formats.duration(value)))


def _is_half(axes: Axes) -> bool:
    return float(axes.bbox.width) < HALF


def _days(times: Sequence[datetime]) -> list[float]:
    """What Matplotlib counts time in."""
    return [at.timestamp() / DAY_SECONDS for at in times]


def _whole_percent(share: float) -> str:
    return "" if share > 1 else f"{share:.4%}".rstrip("%").rstrip("0").rstrip(".") + " %"
