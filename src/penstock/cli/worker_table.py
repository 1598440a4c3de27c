"""Workers as people see them, in `workers` and in `top`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from penstock.cli.fitted import LEFT_OUT, FittedTable
from penstock.cli.output import clean, duration, text
from penstock.insights.serving import SHOWN_MAX, Unserved
from penstock.insights.wording import counted
from penstock.ports.backend import SILENT_SECONDS, WorkerRecord

SHARDS_ALL: Final = 16


def worker_table(workers: list[WorkerRecord], now: float) -> FittedTable:
    # Failures are attempts, of which a failed job may have had several.
    rows = FittedTable(
        "worker", "state", "queues", "busy", "completed", "failures", "up", "seen",
        right=["busy", "completed", "failures", "up", "seen"], middle=["worker"],
        giving_way={
            "worker": 16, "up": LEFT_OUT, "completed": LEFT_OUT, "queues": LEFT_OUT,
            "failures": LEFT_OUT,
        },
    )  # fmt: skip
    for worker in workers:
        silent = now - worker.seen_at
        is_silent = silent > SILENT_SECONDS
        rows.add_row(
            worker.id,
            text("silent", "red") if is_silent else text(worker.state, "green"),
            _served(worker),
            f"{worker.busy}/{worker.concurrency}",
            worker.counters.get("completed", 0),
            worker.counters.get("failed", 0),
            duration(max(now - worker.started_at, 0.0)),
            f"{duration(max(silent, 0.0))} ago",
        )
    return rows


def _served(worker: WorkerRecord) -> str:
    queues = "all" if worker.queues is None else ", ".join(worker.queues)
    is_part = worker.shards is not None and len(worker.shards) < SHARDS_ALL
    return f"{queues}, shards {worker.shards}" if is_part else queues


def unserved_lines(found: Sequence[Unserved]) -> list[Text]:
    """What waits for a worker that knows it, for `stats` and `top`."""
    lines = [
        f"no worker serves {clean(one.type)} in {clean(one.queue)}: {one.pending:,} waiting, "
        + ("none due yet" if one.waiting_seconds is None else _oldest(one.waiting_seconds))
        for one in found[:SHOWN_MAX]
    ]
    if len(found) > SHOWN_MAX:
        lines.append(f"and {counted(len(found) - SHOWN_MAX, 'more type')}")
    return [Text(line, style="yellow") for line in lines]


def _oldest(seconds: float) -> str:
    return f"the oldest for {duration(seconds)}"
