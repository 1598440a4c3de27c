"""pgqueuer on PostgreSQL, which enqueues many with one statement."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any, Final

# Of another environment than the type checker's.
import asyncpg  # type: ignore[import-not-found]
import uvloop
from pgqueuer import AsyncpgDriver, PgQueuer, Queries  # type: ignore[import-not-found]
from pgqueuer.models import Job  # type: ignore[import-not-found]

from bench.contest import BATCH, counted
from bench.load import PAYLOAD_JSON

CLAIM: Final = "BENCH_CLAIM"
"""The variable that says how many jobs a worker takes at a time."""


def enqueue(url: str, jobs: int) -> float:
    async def fill() -> float:
        connection = await asyncpg.connect(url)
        queries = Queries(AsyncpgDriver(connection))
        await queries.install()
        started_at = time.perf_counter()
        for start in range(0, jobs, BATCH):
            count = min(BATCH, jobs - start)
            await queries.enqueue(["noop"] * count, [PAYLOAD_JSON] * count, [0] * count)
        seconds = time.perf_counter() - started_at
        # As autovacuum would soon do; without it the worker was a quarter slower.
        await connection.execute("VACUUM ANALYZE pgqueuer")
        await connection.close()
        return seconds

    seconds: float = uvloop.run(fill())
    return seconds


def work(url: str, jobs: int) -> None:
    looking = asyncio.Runner()
    connection: Any = None

    def left() -> int:
        nonlocal connection
        connection = connection or looking.run(asyncpg.connect(url))
        return int(looking.run(connection.fetchval("SELECT count(*) FROM pgqueuer")))

    calls = counted(jobs, left)

    async def serve() -> None:
        worker = PgQueuer(AsyncpgDriver(await asyncpg.connect(url)))

        @worker.entrypoint("noop")  # type: ignore[untyped-decorator]
        async def noop(job: Job) -> None:
            calls.count()

        await worker.run(batch_size=int(os.environ[CLAIM]))

    uvloop.run(serve())
