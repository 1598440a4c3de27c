"""`penstock stats`."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec.structs import asdict
from rich.filesize import decimal

from penstock.cli.fitted import LEFT_OUT, FittedTable
from penstock.cli.opening import opened, run
from penstock.cli.options import Json, Tenant, Url, finite
from penstock.cli.output import PAUSE_SIGN, duration, out, print_json, text
from penstock.cli.worker_table import unserved_lines
from penstock.insights.rates import Looks, Rates
from penstock.insights.records import stats_record
from penstock.insights.serving import Unserved, unserved
from penstock.insights.wording import counted
from penstock.kernel.job import State
from penstock.ports.backend import Stats
from penstock.runtime.clock import SystemClock

_COLUMNS = ("ready", "scheduled", "running", "completed", "failed", "cancelled", "total")


def command(
    url: Url = None,
    tenant: Tenant = None,
    rates: Annotated[
        float | None,
        typer.Option(
            min=0.0, callback=finite, metavar="SECONDS", help="Watch so long; say how fast it goes."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Over all jobs there ever were, finished ones included. --json is one object."""
    stats, speed, alone = run(_stats(url, tenant, rates))
    if json:
        record = {**stats_record(stats), "unserved": [asdict(one) for one in alone]}
        print_json(record if speed is None else {**record, "rates": asdict(speed)})
        return
    console = out()
    console.print(stats_table(stats))
    if any(queue.paused for queue in stats.queues):
        console.print(f"{PAUSE_SIGN} paused")
    for line in unserved_lines(alone):
        console.print(line)
    if speed is not None:
        said = (f"{value:,.1f} {name}" for name, value in asdict(speed).items())
        console.print(f"a second: {', '.join(said)}")
    if stats.state_bytes is not None:
        are = "is" if stats.jobs == 1 else "are"
        size = decimal(stats.state_bytes)
        console.print(f"{counted(stats.jobs, 'job')} {are} kept, in {size}")
    if stats.events_behind:
        console.print(f"events lag by {counted(stats.events_behind, 'commit')}")


async def _stats(
    url: str | None, tenant: str | None, seconds: float | None
) -> tuple[Stats, Rates | None, list[Unserved]]:
    async with opened(url, tenant) as queue:
        workers, rates = await queue.workers(), None
        if seconds is not None:
            looks = Looks()
            looks.add(await queue.stats())
            await SystemClock().sleep(seconds)
        stats = await queue.stats()
        if seconds is not None:
            rates = looks.add(stats).rates
        return stats, rates, unserved(queue.tenant, stats.queues, workers, stats.at)


def stats_table(stats: Stats) -> FittedTable:
    rows = FittedTable(
        "queue", *_COLUMNS, "oldest", right=[*_COLUMNS, "oldest"],
        giving_way={
            "queue": 16, "total": LEFT_OUT, "cancelled": LEFT_OUT, "scheduled": LEFT_OUT,
            "completed": LEFT_OUT, "oldest": LEFT_OUT,
        },
    )  # fmt: skip
    for queue in stats.queues:
        waiting = None if queue.oldest_ready_at is None else stats.at - queue.oldest_ready_at
        name = f"{PAUSE_SIGN} {queue.queue}" if queue.paused else queue.queue
        ready = max(queue.pending - queue.scheduled, 0)
        rows.add_row(
            name, ready, queue.scheduled, queue.running,
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
        rows.add_row(text("all", "bold"), *(text(cell, "bold") for cell in cells), "")
    return rows


_ENDED = (State.COMPLETED, State.FAILED, State.CANCELLED)
