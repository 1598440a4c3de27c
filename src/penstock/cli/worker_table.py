"""Workers as people see them, in `workers` and in `top`."""

from __future__ import annotations

from typing import Final

from rich.table import Table

from penstock.cli.output import add_row, duration, table, text
from penstock.ports.backend import WorkerRecord

SILENT_SECONDS: Final = 30.0
"""Three registrations missed: a worker that lives would have been heard of."""


def worker_table(workers: list[WorkerRecord], now: float) -> Table:
    rows = table(
        "worker", "state", "queues", "busy", "completed", "failed", "up", "seen",
        right=["busy", "completed", "failed", "up", "seen"], flexible=["worker", "queues"],
    )  # fmt: skip
    for worker in workers:
        silent = now - worker.seen_at
        is_silent = silent > SILENT_SECONDS
        add_row(
            rows,
            worker.id,
            text("silent", "red") if is_silent else text(worker.state, "green"),
            "all" if worker.queues is None else ", ".join(worker.queues),
            f"{len(worker.running)}/{worker.concurrency}",
            worker.counters.get("completed", 0),
            worker.counters.get("failed", 0),
            duration(max(now - worker.started_at, 0.0)),
            f"{duration(max(silent, 0.0))} ago",
        )
    return rows
