"""penstock: an app whose only task does nothing, for `penstock worker`, and a client that fills it.

As a program it is the client.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from typing import Final

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
    queue = await app.queue()
    totals = (await queue.stats()).totals
    assert totals == {"completed": int(os.environ[JOBS])}, totals
    say(seconds)


async def enqueue(url: str, jobs: int) -> float:
    app.relocate(url)
    async with app:
        started_at = time.perf_counter()
        for start in range(0, jobs, BATCH):
            count = min(BATCH, jobs - start)
            await app.enqueue_many([noop.job(**PAYLOAD) for _ in range(count)])
        return time.perf_counter() - started_at


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--jobs", type=int, required=True)
    said = parser.parse_args()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        say(runner.run(enqueue(said.url, said.jobs)))


if __name__ == "__main__":
    main()
