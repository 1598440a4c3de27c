"""One frame of `penstock top`, as it is drawn."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from penstock.cli.fitted import LEFT_OUT, SHORTEST, FittedTable
from penstock.cli.output import (
    PAUSE_SIGN,
    STATE_STYLES,
    duration,
    text,
    when,
)
from penstock.cli.worker_table import unserved_lines, worker_table
from penstock.insights.rates import QueueView, View
from penstock.insights.serving import Unserved, unserved
from penstock.kernel.job import State
from penstock.ports.backend import WorkerRecord

_BARS: Final = "▁▂▃▄▅▆▇█"
CURVE_COLUMNS: Final = 60
TENANT_COLUMNS: Final = 20


class Frame(Struct, frozen=True):
    backend: str
    tenant: str
    view: View
    workers: list[WorkerRecord]

    @property
    def unserved(self) -> list[Unserved]:
        queues = [queue.stats for queue in self.view.queues]
        return unserved(self.tenant, queues, self.workers, self.view.at)


def rendered(frame: Frame, *, is_live: bool = True) -> RenderableType:
    parts: list[RenderableType] = [
        Head(frame),
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
    parts += unserved_lines(frame.unserved)
    foot = ["q quits"] if is_live else []
    if any(queue.stats.paused for queue in frame.view.queues):
        foot.append(f"{PAUSE_SIGN} paused")
    if foot:
        parts += [Text(), Text("   ".join(foot), style="bright_black")]
    return Group(*parts)


class Head:
    """Where there is little room, the address gives way and then the tenant, but not the clock."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        clock = f"{when(self._frame.view.at)} UTC"
        tenant = text(f"tenant {self._frame.tenant}")
        tenant.truncate(TENANT_COLUMNS, overflow="ellipsis")
        room = options.max_width - len("penstock ") - tenant.cell_len - len(clock) - 4
        address = text(self._frame.backend, "bold cyan")
        address.truncate(max(room, SHORTEST), overflow="ellipsis")
        yield Text.assemble(
            ("penstock ", "bold"), address, "  ", tenant, "  ", clock, no_wrap=True, overflow="crop"
        )


def _totals(view: View) -> Text:
    words = Text(no_wrap=True, overflow="ellipsis")
    for state in State:
        if state is State.BLOCKED and not view.totals.get(state.value):
            continue
        words.append(f"{view.totals.get(state.value, 0):,}", style=STATE_STYLES[state.value])
        words.append(f" {state.value}   ")
    return words


def _speed(view: View) -> Table:
    rates = view.rates
    words = Text(no_wrap=True, overflow="ellipsis")
    words.append(f"{per_second(rates.enqueued)} in/s   {per_second(rates.completed)} done/s   ")
    words.append(f"{per_second(rates.failed)} failed/s", style="red" if rates.failed else "")
    row = Table.grid(padding=(0, 3))
    row.add_column(no_wrap=True)
    row.add_column()
    row.add_row(words, Curve(view.completed_per_second))
    return row


def _queues(queues: list[QueueView]) -> FittedTable:
    numbers = ("ready", "scheduled", "running", "in/s", "done/s", "failed/s", "oldest")
    rows = FittedTable(
        "queue", *numbers, right=numbers,
        giving_way={
            "queue": 16, "scheduled": LEFT_OUT, "in/s": LEFT_OUT, "failed/s": LEFT_OUT,
            "done/s": LEFT_OUT,
        },
    )  # fmt: skip
    for queue in queues:
        stats, rates = queue.stats, queue.rates
        paused = stats.paused
        name = text(f"{PAUSE_SIGN} {stats.queue}" if paused else stats.queue, "yellow" * paused)
        failed = text(per_second(rates.failed), "red" if rates.failed else "")
        rows.add_row(
            name, queue.ready, stats.scheduled, stats.running, per_second(rates.enqueued),
            per_second(rates.completed), failed, duration(queue.waiting_seconds),
        )  # fmt: skip
    return rows


def per_second(rate: float) -> str:
    return f"{rate:,.1f}" if rate < 100 else f"{rate:,.0f}"


class Curve:
    """As many of the newest values as there is room for."""

    def __init__(self, values: list[float]) -> None:
        self._values = values

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(curve(self._values, options.max_width), style="green", no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, min(CURVE_COLUMNS, options.max_width))


def curve(values: list[float], columns: int = CURVE_COLUMNS) -> str:
    """The newest values as a line of bars, the highest of them being a full one."""
    shown = values[-min(columns, CURVE_COLUMNS) :]
    highest = max(shown, default=0.0)
    if highest <= 0:
        return ""
    return "".join(_BARS[min(int(value / highest * len(_BARS)), len(_BARS) - 1)] for value in shown)
