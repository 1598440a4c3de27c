"""A store with layout `tasks`, handles on it that each have their own trouble, and a check-up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import penstock
from penstock import Queue
from penstock.insights.checks import Check
from penstock.insights.stored import StoredState
from penstock.ports.store import ObjectStore
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock
from penstock.testing.factories import seeded_services
from penstock.testing.faults import Faults
from penstock.testing.faulty_store import FaultyStore


class World:
    def __init__(self, seed: int = 0, *, autojump: bool = False) -> None:
        self.seed = seed
        self.clock = FakeClock(autojump=autojump)
        self.store = MemoryStore(now=self.clock.now)
        self._opened = 0

    @asynccontextmanager
    async def open(self, store: ObjectStore | None = None, **options: Any) -> AsyncIterator[Queue]:
        self._opened += 1
        services = seeded_services(1_000 * self.seed + self._opened, self.clock)
        async with penstock.open(
            store=store or self.store, layout="tasks", services=services, **options
        ) as queue:
            yield queue

    @asynccontextmanager
    async def open_faulty(self, **options: Any) -> AsyncIterator[tuple[Queue, FaultyStore]]:
        """A handle whose trouble begins when it says so."""
        rng = Random(f"{self.seed} {self._opened}")
        store = FaultyStore(self.store, self.clock, rng, Faults())
        async with self.open(store, **options) as queue:
            yield queue, store

    async def keys(self, prefix: str) -> list[str]:
        return [entry.key async for entry in self.store.list(prefix)]

    async def checks(self) -> list[Check]:
        return [check async for check in StoredState(self.store).run()]

    async def troubles(self) -> dict[str, str]:
        """What the doctor does not like."""
        return {one.check: one.detail for one in await self.checks() if one.verdict != "ok"}
