"""The sections of the page. Each opens with a sentence that says what is to be seen, and one that
has nothing to show says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from penstock.pipeline.report import formats, plots
from penstock.pipeline.report.figures import Figures, Objective, share
from penstock.pipeline.report.heat_map import heat_map
from penstock.pipeline.report.markup import (
    Column,
    Markup,
    Piece,
    alarming,
    bar,
    cut,
    details,
    element,
    figure,
    joined,
    section,
    table,
)
from penstock.pipeline.report.rows import Failure, Quantiles, Traffic

ROWS_MAX: Final = 50
"""Of a table; what is left out is said."""
TYPES_MAX: Final = 3

Row = TypeVar("Row")


def headline(figures: Figures) -> Markup:
    total, cost, objective = figures.total, figures.cost, figures.objective
    wait, run = total.wait, total.run
    met = share(objective.within_both, objective.jobs) if objective else None
    tiles = (
        ("Enqueued", formats.short_count(total.enqueued), _pace(figures)),
        (
            "Completed",
            formats.short_count(total.completed),
            f"{formats.percent(figures.success)} success",
        ),
        (
            "Failed",
            formats.short_count(total.failed),
            f"{formats.counted(total.retried, 'attempt')} retried",
        ),
        (
            "Within objectives",
            formats.percent(met),
            f"of {formats.counted(objective.jobs, 'job')}" if objective else "none were measured",
        ),
        ("Wait, p95", *_tile(wait)),
        ("Run, p95", *_tile(run)),
        (
            "Cost per million jobs",
            formats.dollars(cost.dollars_per_million if cost else None),
            f"{formats.dollars(cost.dollars)} in all" if cost else "nothing was counted",
        ),
        (
            "Workers",
            formats.short_count(len(figures.workers)),
            f"busy for {formats.duration(sum(each.busy_seconds for each in figures.workers))}",
        ),
    )
    return Markup(
        '<dl class="headline" id="overview">'
        + joined(
            element(
                "div",
                element("dt", name),
                element("dd", number, style="number"),
                element("dd", detail, style="detail"),
            )
            for name, number, detail in tiles
        )
        + "</dl>"
    )


def throughput(figures: Figures) -> Markup:
    series = figures.over_time
    if not series.values:
        return _nothing("throughput", "Throughput", "No job has moved in this time.")
    completed = [traffic.completed for traffic in series.values]
    most = max(completed)
    at = series.starts[completed.index(most)]
    words = (
        f"The busiest {series.bucket} began on {formats.minute(at)}, with "
        f"{formats.counted(most, 'job')} completed; on average it was "
        f"{formats.short_count(sum(completed) / len(completed))}."
    )
    return section(
        "throughput",
        "Throughput",
        words,
        figure(plots.throughput(series)),
        details("Show the numbers", _numbers(figures)),
    )


def times(figures: Figures) -> Markup:
    total, series = figures.total, figures.over_time
    if total.wait is None and total.run is None:
        return _nothing("times", "Waiting and running", "No attempt has ended in this time.")
    words = (
        f"Half of all attempts started within {_p50(total.wait)} of being due and ran for no "
        f"longer than {_p50(total.run)}."
    )
    pair = element(
        "div",
        figure(plots.quantiles("wait", series, _wait), "Wait", "from due to started"),
        figure(plots.quantiles("run", series, _run), "Run", "from started to ended"),
        style="pair",
    )
    return section("times", "Waiting and running", words, pair)


def failures(figures: Figures) -> Markup:
    if not figures.failures:
        return _nothing("failures", "Failures", "No attempt has failed in this time.")
    attempts = sum(failure.count for failure in figures.failures)
    first = figures.failures[0]
    words = (
        f"{formats.counted(attempts, 'failed attempt')} of "
        f"{formats.counted(len(figures.failures), 'sort')}; the most frequent makes up "
        f"{formats.percent(share(first.count, attempts))}."
    )
    columns = (
        Column("Error", "words"), Column("Attempts", "number"), Column("Types", "words"),
        Column("First seen", "time"), Column("Last seen", "time"), Column("Example", "job"),
    )  # fmt: skip
    shown = _table("Failed attempts by fingerprint", columns, figures.failures, _failure)
    return section("failures", "Failures", words, shown)


def kinds(figures: Figures) -> Markup:
    if not figures.kinds:
        return _nothing("kinds", "Queues and types", "There are no jobs in this time.")
    queues = {kind.queue for kind in figures.kinds}
    words = (
        f"{formats.counted(len(figures.kinds), 'type')} of jobs in "
        f"{formats.counted(len(queues), 'queue')}, those that ended most often first."
    )
    columns = (
        Column("Type", "words"), Column("Queue", "words"),
        *(Column(name, "number") for name in (
            "Enqueued", "Completed", "Failed", "Retried", "Wait p50", "Wait p95", "Run p50",
            "Run p95", "Run p99",
        )),
    )  # fmt: skip
    shown = _table(
        "Jobs by queue and type",
        columns,
        figures.kinds,
        lambda kind: (
            kind.type, kind.queue, *_counts(kind), _p50(kind.wait), _p95(kind.wait),
            _p50(kind.run), _p95(kind.run), _p99(kind.run),
        ),
    )  # fmt: skip
    return section("kinds", "Queues and types", words, shown)


def rhythm(figures: Figures) -> Markup:
    heat = figures.heat
    if not heat.days:
        return _nothing("rhythm", "Day and hour", "No job was completed in this time.")
    words = f"Jobs completed in each hour of {formats.counted(len(heat.days), 'day')}."
    return section("rhythm", "Day and hour", words, figure(heat_map(heat)))


def workers(figures: Figures) -> Markup:
    if not figures.workers:
        return _nothing("workers", "Workers", "No worker has ended an attempt in this time.")
    most = max(worker.busy_seconds for worker in figures.workers)
    busy = sum(worker.busy_seconds for worker in figures.workers)
    words = (
        f"{formats.counted(len(figures.workers), 'worker')} ran jobs for "
        f"{formats.duration(busy)} in sum. Jobs at once is busy time for each second between a "
        "worker’s first start and last end: 1 is one job all the time."
    )
    columns = (
        Column("Worker", "words"), Column("Attempts", "number"), Column("Completed", "number"),
        Column("Failed", "number"), Column("Jobs at once", "number"), Column("Busy", "number"),
        Column(""),
    )  # fmt: skip
    shown = _table(
        "Workers, the busiest first",
        columns,
        figures.workers,
        lambda worker: (
            element("code", worker.name), formats.count(worker.attempts),
            formats.count(worker.completed), formats.count(worker.failed),
            f"{worker.jobs_at_once:,.1f}", formats.duration(worker.busy_seconds),
            bar(worker.busy_seconds / most if most else 0),
        ),
    )  # fmt: skip
    series = figures.jobs_at_once
    plot = plots.amounts(
        "at-once", "Jobs at once", f"jobs running at once, on average by {series.bucket}", series,
        formats.short_count,
    )  # fmt: skip
    return section("workers", "Workers", words, figure(plot), shown)


def objectives(figures: Figures) -> Markup:
    if figures.objective is None:
        return _nothing("objectives", "Objectives", "No job was measured against an objective.")
    met = figures.objective
    words = (
        f"{formats.percent(share(met.within_both, met.jobs))} of "
        f"{formats.counted(met.jobs, 'job')} succeeded in time; the target is "
        f"{formats.percent(met.success_target)}. In time is started within "
        f"{formats.duration(met.wait_seconds_max)} of being due and done in "
        f"{formats.duration(met.run_seconds_max)}. The worst come first."
    )
    columns = (
        Column("Type", "words"), Column("Queue", "words"),
        *(Column(name, "number") for name in (
            "Jobs", "Succeeded", "Wait in time", "Run in time", "Both",
        )),
        Column(""),
    )  # fmt: skip
    plot = [figure(plots.attainment(figures.attainment))]
    shown = _table(
        "Objectives by queue and type, the worst first", columns, figures.objectives, _objective
    )
    return section(
        "objectives", "Objectives", words, *(plot if len(figures.attainment.values) > 1 else []),
        shown,
    )  # fmt: skip


def costs(figures: Figures) -> Markup:
    cost = figures.cost
    if cost is None:
        return _nothing(
            "cost", "Cost", "No request was counted in this time; layout log counts them."
        )
    words = (
        f"{formats.dollars(cost.dollars)} for {formats.counted(cost.jobs_ended, 'job')} that "
        f"ended: {formats.dollars(cost.dollars_per_million)} per million. "
        f"{formats.counted(cost.put_requests, 'write')} carried {formats.size(cost.bytes_written)}."
    )
    series = cost.over_time
    plot = plots.amounts("cost", "Cost", f"dollars per {series.bucket}", series, formats.dollars)
    return section("cost", "Cost", words, figure(plot))


def _nothing(name: str, title: str, sentence: str) -> Markup:
    return section(name, title, sentence)


def _table(
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[Row],
    cells: Callable[[Row], Sequence[Piece]],
) -> Markup:
    shown = table(caption, columns, (cells(row) for row in rows[:ROWS_MAX]))
    left = len(rows) - ROWS_MAX
    return (
        shown if left <= 0 else joined((shown, element("p", f"And {left:,} more.", style="note")))
    )


def _numbers(figures: Figures) -> Markup:
    """What the plots over time show, for those who can't see them."""
    series = figures.over_time
    columns = (
        Column(f"{str(series.bucket).capitalize()} from", "time"),
        *(Column(name, "number") for name in (
            "Enqueued", "Completed", "Failed", "Retried", "Wait p50", "Wait p95", "Wait p99",
            "Run p50", "Run p95", "Run p99",
        )),
    )  # fmt: skip
    rows = (
        (
            formats.minute(start), *_counts(each), _p50(each.wait), _p95(each.wait),
            _p99(each.wait), _p50(each.run), _p95(each.run), _p99(each.run),
        )
        for start, each in zip(series.starts, series.values, strict=True)
    )  # fmt: skip
    return table(f"Everything by {series.bucket}", columns, rows)


def _counts(traffic: Traffic) -> tuple[Piece, ...]:
    return (
        formats.count(traffic.enqueued),
        formats.count(traffic.completed),
        alarming(formats.count(traffic.failed), when=traffic.failed > 0),
        formats.count(traffic.retried),
    )


def _failure(failure: Failure) -> Sequence[Piece]:
    more = len(failure.types) - TYPES_MAX
    types = ", ".join(failure.types[:TYPES_MAX]) + (f" and {more:,} more" if more > 0 else "")
    return (
        joined((cut(failure.example), element("small", f"{failure.kind} · {failure.fingerprint}"))),
        formats.count(failure.count),
        types,
        formats.minute(failure.first_at),
        formats.minute(failure.last_at),
        element("code", failure.example_id),
    )


def _objective(met: Objective) -> Sequence[Piece]:
    both = share(met.within_both, met.jobs)
    return (
        met.type,
        met.queue,
        formats.count(met.jobs),
        *(
            formats.percent(share(part, met.jobs))
            for part in (met.succeeded, met.within_wait, met.within_run)
        ),
        alarming(formats.percent(both), when=both is not None and both < met.success_target),
        bar(both or 0),
    )


def _pace(figures: Figures) -> str:
    series = figures.over_time
    average = figures.total.enqueued / (len(series.values) or 1)
    return f"{formats.short_count(average)} jobs a {series.bucket}"


def _tile(quantiles: Quantiles | None) -> tuple[str, str]:
    if quantiles is None:
        return formats.NOTHING, "nothing was measured"
    return (
        formats.duration(quantiles.p95),
        f"p50 {formats.duration(quantiles.p50)}, p99 {formats.duration(quantiles.p99)}",
    )


def _wait(traffic: Traffic) -> Quantiles | None:
    return traffic.wait


def _run(traffic: Traffic) -> Quantiles | None:
    return traffic.run


def _p50(quantiles: Quantiles | None) -> str:
    return formats.duration(quantiles.p50 if quantiles else None)


def _p95(quantiles: Quantiles | None) -> str:
    return formats.duration(quantiles.p95 if quantiles else None)


def _p99(quantiles: Quantiles | None) -> str:
    return formats.duration(quantiles.p99 if quantiles else None)
