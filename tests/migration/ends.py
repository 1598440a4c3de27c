"""Queues to move, on every kind of backend, and what they hold."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import penstock
from penstock.address import parse
from penstock.client.queue import Queue
from penstock.kernel.job import Job
from penstock.kernel.retry import RetryPolicy
from penstock.migration.migration import End, Migration, Report
from penstock.migration.tally import Tally
from penstock.ports.backend import Backend, Filter
from penstock.wiring import open_backend

KINDS = ("memory", "log", "single", "sqlite", "tasks")
LARGE = "x" * 300_000
AT_ONCE = RetryPolicy(initial_seconds=0, max_seconds=0)
Wrap = Callable[[Backend], Backend]


def address(kind: str, folder: Path, name: str) -> str:
    return {
        "memory": f"memory://{folder.name}-{name}",
        "log": f"file://{folder}/{name}?fsync=off",
        "single": f"file://{folder}/{name}?layout=single&fsync=off",
        "tasks": f"file://{folder}/{name}?layout=tasks&fsync=off",
        "sqlite": f"sqlite://{folder}/{name}.db?fsync=off",
    }[kind]


@asynccontextmanager
async def end_at(url: str, wrap: Wrap | None = None) -> AsyncIterator[End]:
    backend = open_backend(parse(url, {}))
    await backend.start()
    try:
        yield End(backend if wrap is None else wrap(backend), url)
    finally:
        await backend.stop()


async def migrate(source: str, target: str, *, batch: int = 3, wrap: Wrap | None = None) -> Report:
    async with end_at(source, wrap) as here, end_at(target, wrap) as there:
        return await Migration(here, there, batch=batch).run()


async def everything(url: str) -> tuple[list[tuple[str, str, str, int]], str]:
    """The counts and the digest of all tenants' jobs."""
    tally = Tally()
    async with end_at(url) as end:
        for tenant in (await end.backend.contents()).tenants:
            for archived in (False, True):
                listed = end.backend.jobs(tenant.tenant, Filter(archived=archived))
                ids = [job.id async for job in listed]
                for job in await end.backend.get(tenant.tenant, ids):
                    assert job is not None
                    tally.add(job)
    return [(one.tenant, one.queue, one.state, one.jobs) for one in tally.counts], tally.digest


async def live_a_little(queue: Queue) -> list[Job]:
    """Jobs in every state a job can be in; answers those that are held."""
    await queue.configure(result_ttl_seconds=7200)
    await queue.enqueue("work", {"n": 0}, id="failed", max_attempts=1)
    await queue.nack((await queue.claim())[0], "boom")
    await queue.enqueue("work", id="keyed", key="k", unique_seconds=3600)
    await queue.ack((await queue.claim())[0], {"ok": True})
    await queue.enqueue("work", id="large result")
    await queue.ack((await queue.claim())[0], LARGE)
    await queue.enqueue("work", id="retried", retry=AT_ONCE, meta={"who": "Ärzte"}, trace="t")
    await queue.nack((await queue.claim())[0], "again", kind="ValueError")
    await queue.enqueue("work", b"\x00\xff", id="archived")
    await queue.cancel("archived")
    await queue.archive("archived")
    await queue.enqueue("work", LARGE, id="large", priority=5)
    await queue.enqueue("work", id="later", delay_seconds=900)
    await queue.enqueue("report", id="held 1", queue="images", key="live")
    await queue.enqueue("report", {"packed": b"\x01"}, id="held 2", queue="images", codec="msgpack")
    held = await queue.claim(2, queues=["images"], worker="w1", lease_seconds=600)
    await queue.heartbeat(held[0], progress=0.5, lease_seconds=600)
    await queue.enqueue_many([penstock.NewJob("work", n, id=f"job {n}") for n in range(10)])
    await queue.pause("reports")
    return held


def opened(url: str, tenant: str = "default") -> Queue:
    return penstock.open(url, tenant=tenant, offload=True)
