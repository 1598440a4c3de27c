"""arq. It has no way to enqueue many at once, so that many calls are under way."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import redis
import uvloop

# Of another environment than the type checker's.
from arq import create_pool, func  # type: ignore[import-not-found]
from arq.connections import RedisSettings  # type: ignore[import-not-found]
from arq.worker import Worker  # type: ignore[import-not-found]

from bench.contest import CLIENT_TASKS, counted
from bench.load import PAYLOAD

CONCURRENCY: Final = 100
POLL_SECONDS: Final = 0.01


def enqueue(url: str, jobs: int) -> float:
    async def fill() -> float:
        pool = await create_pool(RedisSettings.from_dsn(url))
        turns = iter(range(jobs))

        async def call() -> None:
            for _ in turns:
                await pool.enqueue_job("noop", **PAYLOAD)

        started_at = time.perf_counter()
        await asyncio.gather(*(call() for _ in range(CLIENT_TASKS)))
        return time.perf_counter() - started_at

    seconds: float = uvloop.run(fill())
    return seconds


def work(url: str, jobs: int) -> None:
    client = redis.Redis.from_url(url)

    def left() -> int:
        waiting: Any = client.zcard("arq:queue")
        return int(waiting)

    calls = counted(jobs, left)

    async def noop(context: Any, *, to: str, n: int) -> None:
        calls.count()

    async def serve() -> None:
        settings = RedisSettings.from_dsn(url)
        await Worker(
            [func(noop, name="noop", keep_result=0)],
            redis_settings=settings,
            max_jobs=CONCURRENCY,
            poll_delay=POLL_SECONDS,
            log_results=False,
        ).async_run()

    uvloop.run(serve())
