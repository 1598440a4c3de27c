"""penstock: an app for `penstock worker` whose only task does nothing, and a client to fill it."""

from __future__ import annotations

import asyncio
import os
from typing import Any, Final

import penstock
from bench.contest import BATCHES_AT_ONCE, Calls, in_batches, say
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
    if totals["completed"] != sum(totals.values()) or totals["completed"] != int(os.environ[JOBS]):
        raise RuntimeError(f"not all jobs have completed: {totals}")
    say(seconds)


def enqueue(url: str, jobs: int) -> float:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(_fill(url, jobs))


async def _fill(url: str, jobs: int) -> float:
    app.relocate(url)
    async with app:
        payload: dict[str, Any] = PAYLOAD

        async def send(count: int) -> None:
            await app.enqueue_many([noop.job(**payload) for _ in range(count)])

        return await in_batches(jobs, [send] * BATCHES_AT_ONCE)
