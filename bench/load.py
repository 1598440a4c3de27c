"""The load: callers enqueue one job per call, then drainers claim and ack until all are done.

Every contestant gets this same code. It needs the standard library alone, because a rival runs it
in an environment of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

PAYLOAD: Final = {"to": "user@example.com", "n": 12345}
PAYLOAD_JSON: Final = b'{"to":"user@example.com","n":12345}'
JOB_TYPE: Final = "send_email"


class Contestant(Protocol):
    """A queue under load."""

    def enqueue(self) -> Awaitable[object]:
        """Adds one job; done when it is durable."""
        ...

    def claim(self, n: int) -> Awaitable[Sequence[Any]]: ...

    def ack(self, jobs: Sequence[Any]) -> Awaitable[object]: ...


@dataclass(frozen=True, slots=True)
class Shape:
    """How many ask for what at the same time."""

    jobs: int
    callers: int = 256
    drainers: int = 8
    claim: int = 64


@dataclass(frozen=True, slots=True)
class Timing:
    """What one run took. A run that was cut off is a bound: it would have taken longer."""

    jobs: int
    enqueue_seconds: float
    drain_seconds: float
    p50_seconds: float = 0.0
    """Of one enqueue, as its caller sees it."""
    p99_seconds: float = 0.0
    cpu_seconds: float = 0.0
    """Of all threads: what is left of the noise when others use the machine as well."""
    is_complete: bool = True

    @property
    def enqueues_per_second(self) -> float:
        return self.jobs / self.enqueue_seconds

    @property
    def drains_per_second(self) -> float:
        return self.jobs / self.drain_seconds

    @property
    def jobs_per_second(self) -> float:
        """End to end: everything enqueued, then everything claimed and acked."""
        return self.jobs / (self.enqueue_seconds + self.drain_seconds)


@dataclass(frozen=True, slots=True)
class Counted:
    """A run on a store that counts, and the requests it took from opening to closing."""

    timing: Timing
    requests: int


async def drive(contestant: Contestant, shape: Shape) -> Timing:
    cpu_seconds = time.process_time()
    enqueue_seconds, latencies = await _fill(contestant, shape)
    drain_seconds = await _drain(contestant, shape)
    cpu_seconds = time.process_time() - cpu_seconds
    latencies.sort()
    p50_seconds, p99_seconds = (latencies[len(latencies) * nth // 100] for nth in (50, 99))
    return Timing(shape.jobs, enqueue_seconds, drain_seconds, p50_seconds, p99_seconds, cpu_seconds)


async def _fill(contestant: Contestant, shape: Shape) -> tuple[float, list[float]]:
    turns = iter(range(shape.jobs))
    latencies: list[float] = []

    async def call() -> None:
        for _ in turns:
            asked_at = time.perf_counter()
            await contestant.enqueue()
            latencies.append(time.perf_counter() - asked_at)

    started_at = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(shape.callers)))
    return time.perf_counter() - started_at, latencies


async def _drain(contestant: Contestant, shape: Shape) -> float:
    wanted, done = shape.jobs, 0

    async def work() -> None:
        nonlocal wanted, done
        while wanted > 0:
            wanted -= shape.claim
            jobs = await contestant.claim(shape.claim)
            await contestant.ack(jobs)
            done += len(jobs)

    started_at = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(shape.drainers)))
    seconds = time.perf_counter() - started_at
    if done < shape.jobs:
        raise RuntimeError(f"{done:,} of {shape.jobs:,} jobs came back")
    return seconds
