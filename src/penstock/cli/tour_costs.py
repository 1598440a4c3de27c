"""What the tour asks of its store, and what that would cost on S3.

Every process of the tour counts its own requests. A worker notes its count in a file now and then,
because one that is killed can't say it any more: of it, what it asked after its last note is
missing.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from penstock.app.app import App
from penstock.cli.output import json_line
from penstock.cli.output_file import open_output
from penstock.ports.store import ObjectStore
from penstock.runtime.services import Services
from penstock.runtime.tasks import TaskSet
from penstock.stores.layers.counting import Counting, Requests

DOLLARS_PER_THOUSAND: Final = {"puts": 0.005, "lists": 0.005, "gets": 0.0004, "deletes": 0.0}
"""What S3 takes in us-east-1, by the kind of request."""
NOTE_SECONDS: Final = 0.1
FOLDER_VARIABLE: Final = "PENSTOCK_TOUR_COUNTS"
"""Names the folder for the workers' notes, to the workers."""


class Spent(Struct, frozen=True):
    puts: int = 0
    gets: int = 0
    lists: int = 0
    deletes: int = 0

    def plus(self, more: Spent) -> Spent:
        return Spent(
            self.puts + more.puts,
            self.gets + more.gets,
            self.lists + more.lists,
            self.deletes + more.deletes,
        )

    @property
    def dollars(self) -> float:
        counts: dict[str, int] = asdict(self)
        return sum(counts[kind] / 1_000 * price for kind, price in DOLLARS_PER_THOUSAND.items())


class Meter:
    """Counts what one process asks of one store."""

    def __init__(self) -> None:
        self._counting: Counting | None = None

    def layer(self, store: ObjectStore) -> ObjectStore:
        self._counting = Counting(store)
        return self._counting

    @property
    def is_counting(self) -> bool:
        return self._counting is not None

    @property
    def spent(self) -> Spent:
        seen = Requests() if self._counting is None else self._counting.requests
        return Spent(seen.puts, seen.gets, seen.lists, seen.deletes)


class Notes:
    """A worker's count in a file of its own, kept up to date until it stops or is killed."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._clock = Services().clock
        self._tasks = TaskSet("tour")

    def keep_for(self, app: App) -> None:
        app.on_start(self._start)
        app.on_stop(self._stop)

    async def _start(self, app: App) -> None:
        folder = os.environ.get(FOLDER_VARIABLE)
        if folder is not None:
            self._tasks.start("notes", self._write_on(Path(folder) / f"{os.getpid()}.json"))

    async def _stop(self, app: App) -> None:
        await self._tasks.stop()

    async def _write_on(self, path: Path) -> None:
        try:
            while True:
                self._write(path)
                await self._clock.sleep(NOTE_SECONDS)
        except asyncio.CancelledError:
            self._write(path)
            raise

    def _write(self, path: Path) -> None:
        with open_output(path) as file:
            file.write(json_line(self._meter.spent))


def noted(folder: Path) -> Spent:
    """What all workers have noted."""
    total = Spent()
    for path in folder.glob("*.json"):
        total = total.plus(msgspec.json.decode(path.read_bytes(), type=Spent))
    return total
