"""pgqueuer on PostgreSQL, which enqueues many with one statement."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import Any, Final

# Of another environment than the type checker's.
import asyncpg  # type: ignore[import-not-found]
import uvloop
from pgqueuer import AsyncpgDriver, PgQueuer, Queries  # type: ignore[import-not-found]
from pgqueuer.models import Job  # type: ignore[import-not-found]

from bench.contest import BATCHES_AT_ONCE, counted, in_batches
from bench.load import PAYLOAD_JSON

CLAIM: Final = "BENCH_CLAIM"
"""The variable that says how many jobs a worker takes at a time."""


async def _send(client: Queries, count: int) -> None:
    await client.enqueue(["noop"] * count, [PAYLOAD_JSON] * count, [0] * count)


def enqueue(url: str, jobs: int) -> float:
    async def fill() -> float:
        connections = [await asyncpg.connect(url) for _ in range(BATCHES_AT_ONCE)]
        clients = [Queries(AsyncpgDriver(connection)) for connection in connections]
        await clients[0].install()
        seconds = await in_batches(jobs, [partial(_send, client) for client in clients])
        # As autovacuum would soon do; without it the worker was a quarter slower.
        await connections[0].execute("VACUUM ANALYZE pgqueuer")
        for connection in connections:
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
