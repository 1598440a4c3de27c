"""A small benchmark of one store: enqueue, claim and ack, with the requests they cost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import PurePath
from tempfile import TemporaryDirectory
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from penstock.address import RECORD_SCHEMES, Address
from penstock.client.queue import Queue
from penstock.insights.probes import percentile
from penstock.kernel.job import Job
from penstock.ports.record_abilities import Droppable
from penstock.ports.store import ObjectStore
from penstock.runtime.services import Services
from penstock.server_url import SERVER_SCHEMES
from penstock.stores.layers.counting import Counting, Requests
from penstock.stores.layers.prefixed import Prefixed
from penstock.stores.memory import MemoryStore
from penstock.wiring import open as open_queue
from penstock.wiring import open_records, open_store

_OF_STORES: Final = frozenset({"endpoint", "fsync", "prefix", "region", "schema"})
"""Options that say where a queue is and how it is written, which the store has been told."""
PAYLOAD: Final = {"to": "user@example.com", "n": 12345}


class Shape(Struct, frozen=True):
    jobs: int
    callers: int
    batch: int


class Measured(Struct, frozen=True):
    phase: str
    jobs: int
    seconds: float
    jobs_per_second: float
    p50_seconds: float
    """Of one call, as its caller sees it."""
    p99_seconds: float
    requests: int
    """To the object store, for all of them."""


async def measure(
    address: Address, shape: Shape, done: Callable[[int], None]
) -> tuple[list[Measured], str]:
    """The phases in order, and the name of what was measured. Leaves nothing behind."""
    services = Services()
    if address.scheme in RECORD_SCHEMES:
        return await _measure_records(address, shape, done)
    store = MemoryStore() if address.scheme == "memory" else open_store(address)
    own = Prefixed(store, f"bench/{services.new_secret()}")
    counting = Counting(own)
    try:
        async with open_queue(store=counting, **_said(address)) as queue:
            bench = _Bench(queue, counting, services, shape, done)
            return [await bench.enqueue(), await bench.claim(), await bench.ack()], store.name
    finally:
        await _delete_all(own)
        await store.close()


async def _measure_records(
    address: Address, shape: Shape, done: Callable[[int], None]
) -> tuple[list[Measured], str]:
    """On a file of its own, in a folder beside the one that was named; or a schema of its own."""
    if address.scheme in SERVER_SCHEMES:
        return await _measure_beside(address, shape, done)
    beside = PurePath(address.path).parent
    with TemporaryDirectory(prefix="penstock-bench-", dir=beside) as folder:
        url = f"{address.scheme}://{folder}/queue.db"
        fsync = address.options.fsync
        async with open_queue(url, fsync=fsync, **_said(address)) as queue:
            bench = _Bench(queue, None, Services(), shape, done)
            phases = [await bench.enqueue(), await bench.claim(), await bench.ack()]
            return phases, f"{address.scheme}://{address.path}"


async def _measure_beside(
    address: Address, shape: Shape, done: Callable[[int], None]
) -> tuple[list[Measured], str]:
    services = Services()
    name = f"penstock_bench_{services.new_secret()}"
    options = replace(address.options, schema=name, prefix=name)
    store = open_records(replace(address, options=options), services)
    try:
        async with open_queue(store=store, **_said(address)) as queue:
            bench = _Bench(queue, None, services, shape, done)
            phases = [await bench.enqueue(), await bench.claim(), await bench.ack()]
            return phases, queue.capabilities.backend
    finally:
        if isinstance(store, Droppable):
            await store.drop()


def _said(address: Address) -> dict[str, Any]:
    """What the URL says of the queue besides where it is: measured is what will be used."""
    options = asdict(address.options)
    said = {name: options[name] for name in address.said & set(options) - _OF_STORES}
    return {**said, **address.settings}


class _Bench:
    def __init__(
        self,
        queue: Queue,
        counting: Counting | None,
        services: Services,
        shape: Shape,
        done: Callable[[int], None],
    ) -> None:
        self._queue = queue
        self._counting = counting
        self._clock = services.clock
        self._shape = shape
        self._done = done
        self._claimed: list[list[Job]] = []

    async def enqueue(self) -> Measured:
        left = iter(range(self._shape.jobs))
        times: list[float] = []

        async def caller() -> None:
            for _ in left:
                await self._timed(times, self._queue.enqueue("bench", PAYLOAD))
                self._done(1)

        async def phase() -> None:
            await asyncio.gather(*(caller() for _ in range(self._shape.callers)))

        return await self._measured("enqueue", times, phase)

    async def claim(self) -> Measured:
        times: list[float] = []

        async def phase() -> None:
            claim = self._queue.claim
            while jobs := await self._timed(times, claim(self._shape.batch, lease_seconds=3_600)):
                self._claimed.append(jobs)
                self._done(len(jobs))

        return await self._measured("claim", times, phase)

    async def ack(self) -> Measured:
        times: list[float] = []

        async def phase() -> None:
            for jobs in self._claimed:
                await self._timed(times, self._queue.ack(jobs))
                self._done(len(jobs))

        return await self._measured("ack", times, phase)

    async def _measured(
        self, phase: str, times: list[float], work: Callable[[], Awaitable[None]]
    ) -> Measured:
        before, started_at = self._requests(), self._clock.elapsed()
        await work()
        seconds = max(self._clock.elapsed() - started_at, 1e-9)
        jobs = self._shape.jobs
        return Measured(
            phase,
            jobs,
            seconds,
            jobs / seconds,
            percentile(times, 0.5),
            percentile(times, 0.99),
            self._requests().since(before).total,
        )

    def _requests(self) -> Requests:
        return Requests() if self._counting is None else self._counting.requests

    async def _timed(self, times: list[float], request: Awaitable[Any]) -> Any:
        started_at = self._clock.elapsed()
        answer = await request
        times.append(self._clock.elapsed() - started_at)
        return answer


async def _delete_all(store: ObjectStore) -> None:
    keys = [entry.key async for entry in store.list("")]
    for key in keys:
        await store.delete(key)
