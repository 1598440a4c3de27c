"""What waits on after a burst, and why: it is for others, or not yet for anybody."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any, Final

from msgspec import Struct

from penstock.cli.output import clean, say
from penstock.client.queue import Queue
from penstock.insights.serving import SHOWN_MAX
from penstock.insights.wording import counted
from penstock.ports.backend import QueueStats, Stats, TypeStats
from penstock.worker.options import WorkerOptions
from penstock.worker.serving import waiting_by_type, waiting_elsewhere

NO_TASK: Final = "no task of this app"
NOT_ASKED_FOR: Final = "not asked for by --types"
NOT_DUE: Final = "not due yet"
DUE: Final = "due by now"
SOME_DUE: Final = "some of them due by now"


class Left(Struct, frozen=True):
    by_type: dict[str, int]
    """Where it has looked."""
    reasons: dict[tuple[str, str], int]
    """The same by type and reason."""
    elsewhere: dict[str, int]
    """Of its types, by queue, where it was not asked to look."""

    def record(self) -> dict[str, Any]:
        reasons = [
            {"type": type, "why": why, "jobs": jobs} for (type, why), jobs in self.reasons.items()
        ]
        return {"left": self.by_type, "reasons": reasons, "elsewhere": self.elsewhere}

    def say(self) -> None:
        for (type, why), jobs in self.reasons.items():
            say(f"left waiting: {counted(jobs, 'job')} of type {clean(type)} ({why})", "yellow")
        if self.elsewhere:
            # One line: the name of a queue may be mistyped.
            counts = [f"{jobs:,} in {clean(name)}" for name, jobs in self.elsewhere.items()]
            hidden = len(counts) - SHOWN_MAX
            more = [counted(hidden, "more queue")] if hidden > 0 else []
            said = ", ".join([*counts[:SHOWN_MAX], *more])
            say(f"of its types, jobs wait in queues that it does not serve: {said}", "yellow")


async def find_left(
    queue: Queue, options: WorkerOptions, known: Container[str], served: Iterable[str] | None
) -> Left:
    """`known` are the types of the app's tasks, `served` those that were claimed; None: any."""
    return left_in(await queue.stats(), options.queues, known, served)


def left_in(
    stats: Stats,
    queues: Iterable[str] | None,
    known: Container[str],
    served: Iterable[str] | None,
) -> Left:
    asked = None if served is None else set(served)
    reasons: dict[tuple[str, str], int] = {}
    for queue in stats.queues:
        if queues is not None and queue.queue not in queues:
            continue
        for one in queue.types:
            for why, jobs in _reasons(queue, one, known, asked):
                if jobs:
                    reasons[one.type, why] = reasons.get((one.type, why), 0) + jobs
    return Left(
        waiting_by_type(stats, queues),
        dict(sorted(reasons.items())),
        waiting_elsewhere(stats, queues, asked),
    )


def _reasons(
    queue: QueueStats, one: TypeStats, known: Container[str], asked: set[str] | None
) -> list[tuple[str, int]]:
    if asked is not None and one.type not in asked:
        return [(NOT_ASKED_FOR if one.type in known else NO_TASK, one.pending)]
    if queue.paused:
        return [(f"in queue {clean(queue.queue)}, which is paused", one.pending)]
    if one.oldest_ready_at is None:
        return [(NOT_DUE, one.pending)]
    if sum(other.oldest_ready_at is not None for other in queue.types) > 1:
        # How many are due is known of the whole queue, and not of each of its types.
        return [(SOME_DUE, one.pending)]
    due = min(max(queue.pending - queue.scheduled, 0), one.pending)
    return [(DUE, due), (NOT_DUE, one.pending - due)]
