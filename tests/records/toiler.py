"""Enqueues, claims and acks without end, and says so after each answer. To be killed.

python -m tests.records.toiler URL NAME
"""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import count

import penstock
from penstock import RetryPolicy
from penstock.errors import LeaseLost

LEASE_SECONDS = 1.0
AT_ONCE = RetryPolicy(initial_seconds=0, max_seconds=0)


async def toil(url: str, name: str) -> None:
    async with penstock.open(url) as queue:
        await asyncio.gather(_fill(queue, name), _drain(queue, name), _drain(queue, name))


async def _fill(queue: penstock.Queue, name: str) -> None:
    for n in count():
        receipt = await queue.enqueue("work", id=f"{name}-{n}", retry=AT_ONCE)
        _say(queued=receipt.id)


async def _drain(queue: penstock.Queue, name: str) -> None:
    while True:
        for job in await queue.claim(3, worker=name, lease_seconds=LEASE_SECONDS, wait_seconds=1):
            try:
                await queue.ack(job, name)
            except LeaseLost:
                continue  # the store was away for longer than the lease
            _say(done=job.id)


def _say(**told: str) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(toil(*sys.argv[1:]))
