"""jqueue 1.0: the whole queue in one JSON file. Run as a program by the Python of `.venv-rivals`.

Its file adapter does not sync to disk, so it saves two fsyncs per commit that the others pay.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import tempfile
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

# Of another environment than the type checker's.
from jqueue import BrokerQueue, LocalFileSystemStorage  # type: ignore[import-not-found]

from bench.load import JOB_TYPE, PAYLOAD_JSON, Shape, Timing, drive


class JqueueContestant:
    def __init__(self, queue: Any) -> None:
        self._queue = queue

    def enqueue(self) -> Awaitable[object]:
        answer: Awaitable[object] = self._queue.enqueue(JOB_TYPE, PAYLOAD_JSON)
        return answer

    def claim(self, n: int) -> Awaitable[Sequence[Any]]:
        answer: Awaitable[Sequence[Any]] = self._queue.dequeue(batch_size=n)
        return answer

    async def ack(self, jobs: Sequence[Any]) -> None:
        await asyncio.gather(*(self._queue.ack(job.id) for job in jobs))


async def run(shape: Shape, folder: str | None, seconds_max: float) -> Timing:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        try:
            async with (
                asyncio.timeout(seconds_max),
                BrokerQueue(LocalFileSystemStorage(Path(place) / "queue.json")) as queue,
            ):
                return await drive(JqueueContestant(queue), shape)
        except TimeoutError:
            return Timing(shape.jobs, seconds_max, 0.0, is_complete=False)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--seconds-max", type=float, required=True)
    parser.add_argument("--folder")
    said = parser.parse_args()
    timing = asyncio.run(run(Shape(said.jobs), said.folder, said.seconds_max))
    print(json.dumps(dataclasses.asdict(timing)))


if __name__ == "__main__":
    main()
