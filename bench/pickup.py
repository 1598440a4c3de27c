"""From enqueue to the handler's start, with a worker that has nothing else to do."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import penstock
from bench.contestants.clock_task import app, started_at
from bench.figures import Row, passed, series
from bench.plan import Plan, isolated
from penstock.runtime.loops import new_loop

SAMPLES: Final = 400
QUICK_SAMPLES: Final = 200
WARM_UP_SAMPLES: Final = 20
IDLE_SECONDS: Final = 0.02
"""Between two samples: the ack of the last is durable by then, and the worker waits again."""
HERE, ELSEWHERE = "in-process", "in another process"
MILLISECONDS_MAX: Final = {(HERE, "p50"): 3, (HERE, "p99"): 15, (ELSEWHERE, "p50"): 20}


@dataclass(frozen=True, slots=True)
class Latencies:
    p50_seconds: float
    p99_seconds: float


def measure(plan: Plan) -> list[Row]:
    samples = plan.scaled(SAMPLES, QUICK_SAMPLES)
    runs = plan.interleaved(
        {
            where: partial(isolated, latencies, where, plan.folder, samples)
            for where in (HERE, ELSEWHERE)
        }
    )
    return [
        _row(where, percentile, runs[where])
        for where in (HERE, ELSEWHERE)
        for percentile in ("p50", "p99")
    ]


def latencies(where: str, folder: str | None, samples: int) -> Latencies:
    worker = _worker_here if where == HERE else _worker_elsewhere
    with (
        tempfile.TemporaryDirectory(dir=folder) as place,
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        url = (Path(place) / "queue").as_uri()
        taken = sorted(runner.run(_sampled(url, worker, samples)))
    p50_seconds, p99_seconds = (taken[len(taken) * nth // 100] for nth in (50, 99))
    return Latencies(p50_seconds, p99_seconds)


async def _sampled(
    url: str, worker: Callable[[str], AbstractAsyncContextManager[None]], samples: int
) -> list[float]:
    app.relocate(url)
    async with app, worker(url):
        taken = [await _sample() for _ in range(WARM_UP_SAMPLES + samples)]
    return taken[WARM_UP_SAMPLES:]


async def _sample() -> float:
    await asyncio.sleep(IDLE_SECONDS)
    asked_at = time.monotonic()
    return await started_at.call() - asked_at


@asynccontextmanager
async def _worker_here(url: str) -> AsyncIterator[None]:
    async with penstock.Worker(app):
        yield


@asynccontextmanager
async def _worker_elsewhere(url: str) -> AsyncIterator[None]:
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "penstock", "worker", "bench.contestants.clock_task:app",
        "--url", url, "--log-level", "warning", stdout=DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        worker.terminate()
        await worker.wait()


def _row(where: str, percentile: str, runs: list[Latencies]) -> Row:
    taken = series((getattr(run, f"{percentile}_seconds") * 1000 for run in runs), "ms")
    requirement = f"idle worker {where}: {percentile} from enqueue to start"
    limit = MILLISECONDS_MAX.get((where, percentile))
    if limit is None:
        return Row(requirement, taken)
    return Row(requirement, taken, bar=f"≤ {limit} ms", verdict=passed(taken.best <= limit))
