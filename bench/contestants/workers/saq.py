"""saq on Redis. It has no way to enqueue many at once, so that many calls are under way."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import redis
import uvloop

# Of another environment than the type checker's.
from saq import Queue, Worker  # type: ignore[import-not-found]

from bench.contest import CLIENT_TASKS, counted
from bench.load import PAYLOAD

CONCURRENCY: Final = 32


def enqueue(url: str, jobs: int) -> float:
    async def fill() -> float:
        queue = Queue.from_url(url)
        await queue.connect()
        turns = iter(range(jobs))

        async def call() -> None:
            for _ in turns:
                await queue.enqueue("noop", **PAYLOAD)

        started_at = time.perf_counter()
        await asyncio.gather(*(call() for _ in range(CLIENT_TASKS)))
        seconds = time.perf_counter() - started_at
        await queue.disconnect()
        return seconds

    seconds: float = uvloop.run(fill())
    return seconds


def work(url: str, jobs: int) -> None:
    client = redis.Redis.from_url(url)

    def left() -> int:
        incomplete: Any = client.zcard("saq:default:incomplete")
        queued: Any = client.llen("saq:default:queued")
        active: Any = client.llen("saq:default:active")
        return int(incomplete) + int(queued) + int(active)

    calls = counted(jobs, left)

    async def noop(context: Any, *, to: str, n: int) -> None:
        calls.count()

    async def serve() -> None:
        queue = Queue.from_url(url)
        await Worker(queue, [("noop", noop)], concurrency=CONCURRENCY).start()

    uvloop.run(serve())
