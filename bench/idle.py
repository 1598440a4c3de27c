"""What it costs to wait: an hour of virtual time, counted request by request.

Virtual, so that the hour takes no time: a loop whose selector never sleeps but jumps to the next
timer, and a clock that reads the loop's time.
"""

from __future__ import annotations

import asyncio
import selectors
from dataclasses import dataclass
from typing import Final

import penstock
from bench.distance import DistantStore
from bench.figures import Row, passed
from bench.plan import Plan
from penstock.runtime.services import Services
from penstock.stores.layers.counting import Counting, Requests
from penstock.stores.memory import MemoryStore

HOUR_SECONDS: Final = 3_600.0
EPOCH: Final = 1_800_000_000.0
WARM_UP_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Idleness:
    """Requests of an hour, and how many poll intervals it had."""

    requests: Requests
    polls: int

    def __str__(self) -> str:
        return f"{self.requests.puts + self.requests.deletes} writes, {self.requests.gets} GETs"

    @property
    def is_frugal(self) -> bool:
        spent = self.requests
        return not (spent.puts or spent.deletes or spent.lists) and spent.gets <= self.polls


def measure(plan: Plan) -> list[Row]:
    plan.say("an idle hour, in virtual time")
    rows = []
    for who, is_waiting in (("nobody waits", False), ("a worker waits", True)):
        idleness = _run(is_waiting)
        rows.append(
            Row(
                f"idle hour, {who}",
                str(idleness),
                "polls",
                str(idleness.polls),
                bar="0 writes, ≤ 1 GET a poll",
                verdict=passed(idleness.is_frugal),
            )
        )
    return rows


def _run(is_waiting: bool) -> Idleness:
    with asyncio.Runner(loop_factory=_JumpingLoop) as runner:
        return runner.run(_idle(is_waiting))


async def _idle(is_waiting: bool) -> Idleness:
    clock = _LoopClock()
    store = Counting(DistantStore(MemoryStore(now=clock.now), round_trip_seconds=0.0))
    async with penstock.open(store=store, services=Services(clock=clock)) as queue:
        await queue.enqueue("hello")
        await queue.ack(await queue.claim())
        wait_seconds = 2 * HOUR_SECONDS if is_waiting else 0.0
        worker = asyncio.create_task(queue.claim(wait_seconds=wait_seconds))
        await asyncio.sleep(WARM_UP_SECONDS)
        before, polls = store.requests, clock.slept
        await asyncio.sleep(HOUR_SECONDS)
        idleness = Idleness(store.requests.since(before), clock.slept - polls)
        worker.cancel()
        await asyncio.wait([worker])
    return idleness


class _LoopClock:
    """The loop's time as a `Clock`, which counts the sleeps that have ended."""

    def __init__(self) -> None:
        self.slept = 0

    def now(self) -> float:
        return EPOCH + self.elapsed()

    def elapsed(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.slept += 1


class _JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.elapsed_seconds


class _JumpingSelector(selectors.DefaultSelector):
    elapsed_seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout:
            self.elapsed_seconds += timeout
        return super().select(timeout and 0)
