"""A queue of layout `tasks` in a folder, with a job whose put takes half an hour to arrive."""

from __future__ import annotations

import os
from pathlib import Path

import penstock
from penstock.engines.records.tasks.names import task_key, task_name
from penstock.runtime.services import Services
from penstock.stores.local import LocalStore
from penstock.testing.clock import FakeClock
from penstock.testing.stamped_store import Stamped

HALF_AN_HOUR = 1_800.0


class Latecomer:
    def __init__(self, folder: Path) -> None:
        self.url = f"{folder.as_uri()}?layout=tasks&fsync=off"
        self.folder = folder
        self._clock = FakeClock(Services().clock.now() - HALF_AN_HOUR)
        self._stamps: dict[str, float] = {}
        self._path = folder / task_key(task_name("default", "late"))
        self._aside = folder.with_suffix(".aside")

    async def enqueue(self, id: str) -> None:
        """In time, each a second after the one before."""
        self._clock.jump(1.0)
        services = Services(clock=self._clock)
        store = LocalStore(self.folder, fsync=False)
        stamped = Stamped(store, self._clock, self._stamps)
        async with penstock.open(store=stamped, layout="tasks", services=services) as queue:
            await queue.enqueue("work", id=id)
        await store.close()
        for path in self.folder.glob("tasks/*/*.json"):
            os.utime(path, (self._clock.now(), self._clock.now()))

    async def begin(self) -> None:
        await self.enqueue("late")
        self._path.rename(self._aside)

    def arrive(self) -> None:
        """It is stored only now, as its stamp says; its event has the time and place of then."""
        self._aside.rename(self._path)
        self._path.touch()
