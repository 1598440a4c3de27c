"""`penstock workers`."""

from __future__ import annotations

from penstock.cli.opening import opened, run
from penstock.cli.options import Json, Tenant, Url
from penstock.cli.output import out, print_json, say
from penstock.cli.worker_table import worker_table
from penstock.insights.records import worker_record
from penstock.ports.backend import WorkerRecord


def command(url: Url = None, tenant: Tenant = None, json: Json = False) -> None:
    """Of all tenants, or of one. A worker that is silent has probably died."""
    workers, now = run(_workers(url))
    workers = [worker for worker in workers if tenant in (None, worker.tenant)]
    if json:
        for worker in workers:
            print_json(worker_record(worker))
    elif workers:
        out().print(worker_table(workers, now))
    else:
        say("no worker has registered")


async def _workers(url: str | None) -> tuple[list[WorkerRecord], float]:
    async with opened(url) as queue:
        return await queue.workers(), (await queue.stats()).at
