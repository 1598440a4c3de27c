"""`penstock stats`."""

from __future__ import annotations

from rich.table import Table

from penstock.cli.opening import opened, run
from penstock.cli.options import Json, Tenant, Url
from penstock.cli.output import PAUSE_SIGN, add_row, duration, out, print_json, table, text
from penstock.insights.records import stats_record
from penstock.kernel.job import State
from penstock.ports.backend import Stats

_COLUMNS = ("ready", "scheduled", "running", "completed", "failed", "cancelled", "total")


def command(url: Url = None, tenant: Tenant = None, json: Json = False) -> None:
    """Over all jobs there ever were, finished ones included. --json is one object."""
    stats = run(_stats(url, tenant))
    if json:
        print_json(stats_record(stats))
        return
    console = out()
    console.print(_table(stats))
    if any(queue.paused for queue in stats.queues):
        console.print(f"{PAUSE_SIGN} paused")


async def _stats(url: str | None, tenant: str | None) -> Stats:
    async with opened(url, tenant) as queue:
        return await queue.stats()


def _table(stats: Stats) -> Table:
    rows = table("queue", *_COLUMNS, "oldest", right=[*_COLUMNS, "oldest"], flexible=["queue"])
    for queue in stats.queues:
        waiting = None if queue.oldest_ready_at is None else stats.at - queue.oldest_ready_at
        name = f"{PAUSE_SIGN} {queue.queue}" if queue.paused else queue.queue
        ready = max(queue.pending - queue.scheduled, 0)
        add_row(
            rows, name, ready, queue.scheduled, queue.running,
            *(queue.totals.get(state.value, 0) for state in _ENDED),
            sum(queue.totals.values()), "–" if waiting is None else duration(waiting),
        )  # fmt: skip
    if len(stats.queues) != 1:
        rows.add_section()
        pending = stats.totals.get("pending", 0)
        scheduled = sum(queue.scheduled for queue in stats.queues)
        cells = [pending - scheduled, scheduled, stats.totals.get("running", 0)]
        cells += [stats.totals.get(state.value, 0) for state in _ENDED]
        cells.append(sum(stats.totals.values()))
        add_row(rows, text("all", "bold"), *(text(cell, "bold") for cell in cells), "")
    return rows


_ENDED = (State.COMPLETED, State.FAILED, State.CANCELLED)
