"""Which types of jobs nobody serves: they wait, and nothing else would say so.

A worker claims what its app has tasks for and registers what that is. What waits without a
registered worker that claims it is new, since its workers are not deployed yet, or forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from penstock.insights.checks import Check
from penstock.kernel.job import State
from penstock.kernel.state import QueueState
from penstock.ports.backend import QueueStats, WorkerRecord

SHOWN_MAX: Final = 10
WAITED_SECONDS: Final = 30.0
"""What has been due for longer nobody seems to claim."""


class Unserved(Struct, frozen=True):
    """Jobs of one type in one queue that no registered worker claims."""

    tenant: str
    queue: str
    type: str
    pending: int
    waiting_seconds: float | None
    """For how long the oldest has been due; None: none is yet."""


def unserved(
    tenant: str, queues: Iterable[QueueStats], workers: Iterable[WorkerRecord], at: float
) -> list[Unserved]:
    """The longest-waiting ones first."""
    serving = [one for one in workers if one.tenant == tenant and _serves_now(one, at)]
    found = [
        Unserved(tenant, queue.queue, one.type, one.pending, _age(one.oldest_ready_at, at))
        for queue in queues
        for one in queue.types
        if not any(worker.serves(queue.queue, one.type) for worker in serving)
    ]
    return sorted(found, key=lambda one: (-(one.waiting_seconds or 0.0), one.queue, one.type))


def types_served(state: QueueState, workers: Sequence[WorkerRecord], now: float) -> Check:
    """For `doctor`: whether somebody serves what has been due for a while, of all tenants."""
    oldest: dict[tuple[str, str, str], tuple[int, float]] = {}
    for tenancy in state.tenants.values():
        for job in tenancy.jobs.values():
            if job.state is State.PENDING and job.run_at < now - WAITED_SECONDS:
                count, since = oldest.get((tenancy.name, job.queue, job.type), (0, now))
                name = (tenancy.name, job.queue, job.type)
                oldest[name] = count + 1, min(since, job.run_at)
    nobody = [
        f"{count:,} of type {type!r} in queue {queue!r} of tenant {tenant!r}, "
        f"the oldest for {now - since:,.0f} s"
        for (tenant, queue, type), (count, since) in oldest.items()
        if not any(
            one.tenant == tenant and one.serves(queue, type) and _serves_now(one, now)
            for one in workers
        )
    ]
    if not nobody:
        return Check("now", "types served", "ok", "nothing has waited long that no worker serves")
    more = f" and {len(nobody) - SHOWN_MAX:,} more" if len(nobody) > SHOWN_MAX else ""
    words = f"no registered worker claims {'; '.join(nobody[:SHOWN_MAX])}{more}"
    return Check("now", "types served", "warn", words)


def _serves_now(worker: WorkerRecord, at: float) -> bool:
    return worker.state == "running" and not worker.is_silent(at)


def _age(since: float | None, at: float) -> float | None:
    return None if since is None else max(at - since, 0.0)
