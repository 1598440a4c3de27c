"""The most important of a report, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from rich.text import Text

from penstock.cli.output import add_row, clean, out, say, table, text
from penstock.pipeline.report import formats
from penstock.pipeline.report.figures import Figures, share
from penstock.pipeline.report.rows import Quantiles

LINE_COLUMNS: Final = 60
"""How wide the line of throughput is; longer ones are folded together."""
ROWS_MAX: Final = 10
_BARS: Final = " ▁▂▃▄▅▆▇█"


def show(figures: Figures) -> None:
    _say(figures.period, "bold")
    if figures.first is None:
        return
    _headline(figures)
    _kinds(figures)
    _failures(figures)


def spark_line(values: Sequence[float], columns: int = LINE_COLUMNS) -> str:
    """Heights as one line of characters; nothing is a blank, something never is."""
    folded = _folded(values, columns)
    most = max(folded, default=0)
    if not most:
        return " " * len(folded)
    levels = len(_BARS) - 1
    return "".join(_BARS[max(round(value / most * levels), value > 0)] for value in folded)


def _headline(figures: Figures) -> None:
    total, cost, objective = figures.total, figures.cost, figures.objective
    completed = [float(each.completed) for each in figures.over_time.values]
    _say(
        f"{total.enqueued:,} enqueued, {total.completed:,} completed, {total.failed:,} failed, "
        f"{total.retried:,} retried: {formats.percent(figures.success)} success"
    )
    out().print(
        Text(f"completed a {figures.over_time.bucket}  "),
        Text(f"{spark_line(completed)}│", style="cyan"),
        Text(f" at most {formats.count(max(completed))}"),
        sep="",
        soft_wrap=True,
    )
    _say(f"wait {_quantiles(total.wait)}; run {_quantiles(total.run)}")
    if objective is not None:
        met = share(objective.within_both, objective.jobs)
        missed = met is not None and met < objective.success_target
        target = formats.percent(objective.success_target)
        _say(f"{formats.percent(met)} in time, the target is {target}", "red" if missed else "")
    if cost is not None:
        _say(
            f"{formats.dollars(cost.dollars_per_million)} per million jobs, "
            f"{formats.dollars(cost.dollars)} in all; "
            f"{formats.counted(cost.put_requests, 'write')}, {formats.size(cost.bytes_written)}"
        )


def _kinds(figures: Figures) -> None:
    numbers = ["completed", "failed", "retried", "wait p95", "run p50", "run p95"]
    rows = table("type", "queue", *numbers, right=numbers, flexible=["type", "queue"])
    for kind in figures.kinds[:ROWS_MAX]:
        failed = text(kind.failed, "red" if kind.failed else "")
        wait = None if kind.wait is None else kind.wait.p95
        runs = (None, None) if kind.run is None else (kind.run.p50, kind.run.p95)
        times = [formats.duration(seconds) for seconds in (wait, *runs)]
        add_row(rows, kind.type, kind.queue, kind.completed, failed, kind.retried, *times)
    _print(rows, len(figures.kinds))


def _failures(figures: Figures) -> None:
    if not figures.failures:
        return
    rows = table(
        "error", "kind", "attempts", "last seen", right=["attempts"], flexible=["error", "kind"]
    )
    for failure in figures.failures[:ROWS_MAX]:
        add_row(rows, failure.example, failure.kind, failure.count, formats.second(failure.last_at))
    _print(rows, len(figures.failures))


def _say(words: str, style: str = "") -> None:
    """With plain spaces: terminals differ about narrow ones."""
    say(clean(words), style)


def _print(rows: object, count: int) -> None:
    out().print()
    out().print(rows)
    if count > ROWS_MAX:
        _say(f"and {count - ROWS_MAX:,} more in the page", "bright_black")


def _quantiles(of: Quantiles | None) -> str:
    if of is None:
        return formats.NOTHING
    shown = (formats.duration(each) for each in (of.p50, of.p95, of.p99))
    return "{} (p50), {} (p95), {} (p99)".format(*shown)


def _folded(values: Sequence[float], columns: int) -> list[float]:
    """At most so many values, each the greatest of those that it stands for."""
    if len(values) <= columns:
        return list(values)
    edges = [len(values) * number // columns for number in range(columns + 1)]
    return [max(values[start:end]) for start, end in pairwise(edges)]
