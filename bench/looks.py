"""What a look costs beside much that it does not ask for: many queues, long logs, large commits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import penstock
from bench.figures import Row, passed, series
from bench.plan import Plan, isolated
from penstock.engines.ledger.log import reader
from penstock.stores.layers.counting import Counting
from penstock.stores.memory import MemoryStore
from penstock.wire.commit import decode_commit

QUEUES: Final = 20_000
QUEUES_PER_CALL: Final = 5_000
HELD_MS_MAX: Final = 10.0
TRANSITIONS: Final = 200
OTHERS: Final = 500
READS_PER_COMMIT_MAX: Final = 1.1
LINES: Final = 10_000
GETS: Final = 50
DECODED_MAX: Final = 0.5


def measure(plan: Plan) -> list[Row]:
    runs = {"looks": lambda: isolated(costs)}
    found = plan.interleaved(runs)["looks"]
    held = series((each["held"] for each in found), "ms")
    reads = series((each["reads"] for each in found), "requests")
    one, whole = (series((each[name] for each in found), "ms") for name in ("get", "decode"))
    ratio = one.best / whole.best
    return [
        Row(
            f"memory: stats of {QUEUES:,} queues, the loop held for",
            held,
            bar=f"≤ {HELD_MS_MAX:g} ms",
            verdict=passed(held.best <= HELD_MS_MAX),
        ),
        Row(
            f"log: history of {TRANSITIONS:,} transitions, GETs per commit of its own",
            reads,
            bar=f"≤ {READS_PER_COMMIT_MAX:g}",
            verdict=passed(reads.best <= READS_PER_COMMIT_MAX),
        ),
        Row(
            f"log: get of a completed job, of a commit with {LINES:,} lines",
            one,
            "decoding that commit",
            whole,
            ratio,
            f"≤ {DECODED_MAX:g}×",
            passed(ratio <= DECODED_MAX),
        ),
    ]


def costs() -> dict[str, float]:
    # So that the log is read each time.
    reader.REMEMBERED_EVENTS_MAX = 1  # type: ignore[misc]
    return asyncio.run(_costs())


async def _costs() -> dict[str, float]:
    return {"held": await _held_ms(), "reads": await _reads(), **await _get_ms()}


async def _held_ms() -> float:
    """The longest that nothing else could run, in time of the processor."""
    async with penstock.open("memory://") as queue:
        for first in range(0, QUEUES, QUEUES_PER_CALL):
            names = (f"q{number}" for number in range(first, first + QUEUES_PER_CALL))
            await queue.enqueue_many([penstock.NewJob("work", queue=name) for name in names])
        with _ticking() as held:
            await queue.stats()
        return max(held) * 1_000


@contextmanager
def _ticking() -> Iterator[list[float]]:
    loop, held, last, is_over = asyncio.get_running_loop(), list[float](), time.thread_time(), False

    def tick() -> None:
        nonlocal last
        now = time.thread_time()
        held.append(now - last)
        last = now
        if not is_over:
            loop.call_soon(tick)

    loop.call_soon(tick)
    yield held
    is_over = True


async def _reads() -> float:
    store = Counting(MemoryStore())
    async with penstock.open(store=store) as queue:
        await queue.enqueue("work", id="busy", queue="busy")
        for _ in range(TRANSITIONS // 2):
            await queue.release(await queue.claim(1, queues=["busy"]))
        for _ in range(OTHERS):
            await queue.enqueue("work")
        before = store.requests
        history = await queue.history("busy")
        return store.requests.since(before).gets / len(history)


async def _get_ms() -> dict[str, float]:
    store = MemoryStore()
    async with penstock.open(store=store) as queue:
        await queue.enqueue_many(
            [penstock.NewJob("work", number, id=str(number)) for number in range(LINES)]
        )
        await queue.ack(await queue.claim(LINES), results=["x" * 20] * LINES)
        await queue.configure(results_bytes_max=0)
        spent: list[float] = []
        for number in range(GETS):
            started_at = time.perf_counter()
            job = await queue.get(str(number * 7))
            spent.append((time.perf_counter() - started_at) * 1_000)
            assert job is not None
            assert job.payload == number * 7
    names = [entry.key async for entry in store.list("log/")]
    largest = max([(await store.get(name)).data for name in names], key=len)
    started_at = time.perf_counter()
    decode_commit("log", largest)
    return {"get": min(spent), "decode": (time.perf_counter() - started_at) * 1_000}
