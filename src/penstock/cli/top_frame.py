"""One frame of `penstock top`, as it is drawn."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.output import (
    PAUSE_SIGN,
    STATE_STYLES,
    add_row,
    clean,
    duration,
    table,
    text,
    when,
)
from penstock.cli.worker_table import worker_table
from penstock.insights.rates import QueueView, View
from penstock.kernel.job import State
from penstock.ports.backend import WorkerRecord

_BARS: Final = "▁▂▃▄▅▆▇█"
CURVE_COLUMNS: Final = 60


class Frame(Struct, frozen=True):
    backend: str
    tenant: str
    view: View
    workers: list[WorkerRecord]


def rendered(frame: Frame, *, is_live: bool = True) -> RenderableType:
    parts: list[RenderableType] = [
        _head(frame),
        _totals(frame.view),
        _speed(frame.view),
        Text(),
        _queues(frame.view.queues) if frame.view.queues else Text("no jobs yet"),
        Text(),
    ]
    if frame.workers:
        parts.append(worker_table(frame.workers, frame.view.at))
    else:
        parts.append(Text("no worker has registered", style="yellow"))
    if is_live:
        parts += [Text(), Text(f"q quits   {PAUSE_SIGN} paused", style="bright_black")]
    return Group(*parts)


def _head(frame: Frame) -> Text:
    return Text.assemble(
        ("penstock ", "bold"),
        (clean(frame.backend), "bold cyan"),
        f"  tenant {clean(frame.tenant)}  {when(frame.view.at)} UTC",
        no_wrap=True,
        overflow="ellipsis",
    )


def _totals(view: View) -> Text:
    words = Text(no_wrap=True, overflow="ellipsis")
    for state in State:
        if state is State.BLOCKED and not view.totals.get(state.value):
            continue
        words.append(f"{view.totals.get(state.value, 0):,}", style=STATE_STYLES[state.value])
        words.append(f" {state.value}   ")
    return words


def _speed(view: View) -> Text:
    rates = view.rates
    words = Text(no_wrap=True, overflow="ellipsis")
    words.append(f"{per_second(rates.enqueued)} in/s   {per_second(rates.completed)} done/s   ")
    words.append(f"{per_second(rates.failed)} failed/s   ", style="red" if rates.failed else "")
    words.append(curve(view.completed_per_second), style="green")
    return words


def _queues(queues: list[QueueView]) -> Table:
    numbers = ("ready", "scheduled", "running", "in/s", "done/s", "failed/s", "oldest")
    rows = table("queue", *numbers, right=numbers, flexible=["queue"])
    for queue in queues:
        stats, rates = queue.stats, queue.rates
        paused = stats.paused
        name = text(f"{PAUSE_SIGN} {stats.queue}" if paused else stats.queue, "yellow" * paused)
        failed = text(per_second(rates.failed), "red" if rates.failed else "")
        add_row(
            rows, name, queue.ready, stats.scheduled, stats.running, per_second(rates.enqueued),
            per_second(rates.completed), failed, duration(queue.waiting_seconds),
        )  # fmt: skip
    return rows


def per_second(rate: float) -> str:
    return f"{rate:,.1f}" if rate < 100 else f"{rate:,.0f}"


def curve(values: list[float]) -> str:
    """The newest values as a line of bars, the highest of them being a full one."""
    shown = values[-CURVE_COLUMNS:]
    highest = max(shown, default=0.0)
    if highest <= 0:
        return ""
    return "".join(_BARS[min(int(value / highest * len(_BARS)), len(_BARS) - 1)] for value in shown)
