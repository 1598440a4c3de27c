"""penstock: an app for `penstock worker` whose only task does nothing, and a client to fill it."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any, Final

import penstock
from bench.contest import BATCH, Calls, say
from bench.load import PAYLOAD
from penstock.runtime.loops import new_loop

JOBS: Final = "BENCH_JOBS"
"""The variable that tells a worker how many to expect."""

app = penstock.App()
calls = Calls(int(os.environ.get(JOBS, "0")))


@app.task
async def noop(to: str, n: int) -> None:
    calls.count()


@app.on_stop
async def stopped(app: penstock.App) -> None:
    """The worker's last ack is durable by now."""
    seconds = calls.seconds
    totals = (await (await app.queue()).stats()).totals
    if totals != {"completed": int(os.environ[JOBS])}:
        raise RuntimeError(f"not all jobs have completed: {totals}")
    say(seconds)


def enqueue(url: str, jobs: int) -> float:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(_fill(url, jobs))


async def _fill(url: str, jobs: int) -> float:
    app.relocate(url)
    async with app:
        payload: dict[str, Any] = PAYLOAD
        started_at = time.perf_counter()
        for start in range(0, jobs, BATCH):
            count = min(BATCH, jobs - start)
            await app.enqueue_many([noop.job(**payload) for _ in range(count)])
        return time.perf_counter() - started_at
