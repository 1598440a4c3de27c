"""Rows for a queue that takes no bulk imports: each task enqueues its own, in batches.

They need ids: then it does not matter how often a task is tried, or whether two attempts at it run
at once, since a job that is there stays as it is. What was enqueued before a failure stays, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any, Final

import msgspec

from penstock.address import STORES
from penstock.client.arguments import raised
from penstock.client.blocking import BlockingQueue
from penstock.client.newjob import NewJob
from penstock.errors import InvalidInput, Unsupported
from penstock.kernel.job import DEFAULT_CODEC
from penstock.pipeline.sink.columns import Array, Plan
from penstock.pipeline.sink.options import WriteOptions
from penstock.pipeline.sink.writing import NEVER_NULL
from penstock.wiring import open_sync

JOBS_PER_COMMIT: Final = 1_000


def require_ids(plan: Plan, options: WriteOptions) -> None:
    if not plan.has_ids:
        rule = "bulk imports: give the rows a column 'id', then they are enqueued in batches"
        scheme = options.address.scheme
        raise Unsupported(rule, "layout 'tasks'" if scheme in STORES else f"{scheme}://")


def enqueue_rows(batches: Iterator[Array], plan: Plan, options: WriteOptions) -> None:
    queues: dict[str, BlockingQueue] = {}
    with ExitStack() as stack:
        for batch in batches:
            for tenant, jobs in _by_tenant(_jobs(batch, plan), options).items():
                if tenant not in queues:
                    opened = open_sync(options.address.url, tenant=tenant)
                    queues[tenant] = stack.enter_context(opened)
                for first in range(0, len(jobs), JOBS_PER_COMMIT):
                    # A row that did not get in fails its task; the next attempt brings it again.
                    for outcome in queues[tenant].enqueue_many(
                        jobs[first : first + JOBS_PER_COMMIT]
                    ):
                        raised(outcome)


def _by_tenant(
    jobs: Iterable[tuple[str | None, NewJob]], options: WriteOptions
) -> dict[str, list[NewJob]]:
    mine = options.tenant or options.address.options.tenant
    groups: dict[str, list[NewJob]] = {}
    for tenant, job in jobs:
        groups.setdefault(tenant or mine, []).append(job)
    return groups


def _jobs(batch: Array, plan: Plan) -> Iterator[tuple[str | None, NewJob]]:
    columns = plan.values(batch)
    for values in zip(*columns.values(), strict=True):
        said = {name: it for name, it in zip(columns, values, strict=True) if it is not None}
        tenant = said.pop("tenant", None)
        for name in NEVER_NULL:
            if name not in said:
                raise InvalidInput(f"{name}: it must not be null")
        yield tenant, NewJob(**{**said, "payload": _payload(said.get("payload"), plan.codec)})


def _payload(value: Any, codec: str) -> Any:
    if value is None or codec != DEFAULT_CODEC:
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"payload: it is no JSON ({error})") from None
