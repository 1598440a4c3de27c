"""How fast things go: rates between two looks at the same queue.

Totals count every job there ever was, so what happened between two looks is their difference, and
nothing has to be followed or remembered but the looks themselves.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from msgspec import Struct

from penstock.kernel.job import State
from penstock.ports.backend import QueueStats, Stats

HISTORY_LOOKS: Final = 240
"""How many looks the curve of the throughput remembers."""


class Rates(Struct, frozen=True):
    """Jobs per second since the look before."""

    enqueued: float = 0.0
    completed: float = 0.0
    failed: float = 0.0


class QueueView(Struct, frozen=True):
    stats: QueueStats
    rates: Rates
    waiting_seconds: float | None
    """For how long the longest-waiting job has been due."""

    @property
    def ready(self) -> int:
        return max(self.stats.pending - self.stats.scheduled, 0)


class View(Struct, frozen=True):
    """One frame of what `top` shows."""

    at: float
    totals: dict[str, int]
    rates: Rates
    queues: list[QueueView]
    completed_per_second: list[float]
    """The throughput of the last looks, newest last."""

    def record(self) -> dict[str, Any]:
        return {
            "at": self.at,
            "totals": self.totals,
            "rates": self.rates,
            "queues": [
                {
                    "queue": view.stats.queue,
                    "ready": view.ready,
                    "scheduled": view.stats.scheduled,
                    "running": view.stats.running,
                    "paused": view.stats.paused,
                    "waiting_seconds": view.waiting_seconds,
                    "totals": view.stats.totals,
                    "rates": view.rates,
                }
                for view in self.queues
            ],
        }


class Looks:
    """Takes in one look after the other and says what changed."""

    def __init__(self) -> None:
        self._before: Stats | None = None
        self._throughput: deque[float] = deque(maxlen=HISTORY_LOOKS)

    def add(self, stats: Stats) -> View:
        before, self._before = self._before, stats
        seconds = 0.0 if before is None else stats.at - before.at
        earlier = {} if before is None else {queue.queue: queue.totals for queue in before.queues}
        rates = _rates({} if before is None else before.totals, stats.totals, seconds)
        if before is not None:
            self._throughput.append(rates.completed)
        return View(
            at=stats.at,
            totals=stats.totals,
            rates=rates,
            queues=[
                QueueView(
                    queue,
                    _rates(earlier.get(queue.queue, {}), queue.totals, seconds),
                    None if queue.oldest_ready_at is None else stats.at - queue.oldest_ready_at,
                )
                for queue in stats.queues
            ],
            completed_per_second=list(self._throughput),
        )


def _rates(before: dict[str, int], after: dict[str, int], seconds: float) -> Rates:
    if seconds <= 0:
        return Rates()

    def per_second(change: int) -> float:
        # A replay takes a job out of the failed ones: fewer of them is no negative rate.
        return max(change, 0) / seconds

    def grown(state: State) -> int:
        return after.get(state.value, 0) - before.get(state.value, 0)

    return Rates(
        enqueued=per_second(sum(after.values()) - sum(before.values())),
        completed=per_second(grown(State.COMPLETED)),
        failed=per_second(grown(State.FAILED)),
    )
