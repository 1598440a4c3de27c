"""penstock itself, through the interface that people use."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

import penstock
from bench.distance import DistantStore
from bench.load import JOB_TYPE, PAYLOAD, Counted, Shape, Timing, drive
from bench.loops import run
from penstock.stores.layers.counting import Counting
from penstock.stores.memory import MemoryStore


class PenstockContestant:
    def __init__(self, queue: penstock.Queue) -> None:
        self._queue = queue

    def enqueue(self) -> Awaitable[object]:
        return self._queue.enqueue(JOB_TYPE, PAYLOAD)

    def claim(self, n: int) -> Awaitable[Sequence[Any]]:
        return self._queue.claim(n)

    def ack(self, jobs: Sequence[Any]) -> Awaitable[object]:
        return self._queue.ack(jobs)


def on_files(shape: Shape, folder: str | None, loop: str) -> Timing:
    async def work() -> Timing:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            async with penstock.open((Path(place) / "queue").as_uri()) as queue:
                return await drive(PenstockContestant(queue), shape)

    return run(work(), loop)


def on_a_distant_store(shape: Shape, round_trip_seconds: float, loop: str) -> Counted:
    async def work() -> Counted:
        store = Counting(DistantStore(MemoryStore(), round_trip_seconds))
        async with penstock.open(store=store) as queue:
            timing = await drive(PenstockContestant(queue), shape)
        return Counted(timing, store.requests.total)

    return run(work(), loop)
