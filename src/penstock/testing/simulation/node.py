"""One simulated machine: a process that holds queues, and dies, sleeps and comes back."""

from __future__ import annotations

import asyncio
import random  # noqa: TID251 - seeded by the plan, and nothing else
from collections.abc import Coroutine
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.client.queue import Queue
from penstock.engines.ledger.engine import LedgerEngine
from penstock.engines.ledger.journal import Journal, Listener
from penstock.engines.ledger.log.journal import LogJournal
from penstock.engines.ledger.log.tail import Tail
from penstock.engines.ledger.marker import ensure_marker
from penstock.engines.ledger.memory import MemoryJournal
from penstock.engines.ledger.single.journal import SingleJournal
from penstock.engines.records.tasks.engine import TasksEngine
from penstock.errors import PenstockError
from penstock.kernel.commands import Expire
from penstock.kernel.events import SYSTEM_TENANT
from penstock.ports.store import ObjectStore
from penstock.runtime.services import Services
from penstock.stores.layers.retrying import Retrying
from penstock.testing.simulation.client import RecordingClient
from penstock.testing.simulation.clocks import SimulatedClock, services
from penstock.testing.simulation.loop import Process
from penstock.testing.simulation.plan import NodePlan
from penstock.testing.simulation.stores import NetworkStore

if TYPE_CHECKING:
    from penstock.testing.simulation.world import World

OPENING_SECONDS = 1.0
"""How long a process waits before it tries again to open its queue."""


class ShakenLogJournal(LogJournal):
    """Makes checkpoints far more often than anybody would."""

    tail_objects = 4_096

    async def _load(self) -> None:
        await super()._load()
        self.tail = Tail(objects_max=self.tail_objects)


class Node:
    def __init__(self, world: World, number: int, plan: NodePlan) -> None:
        self.name = f"node{number}"
        self.plan = plan
        self.world = world
        self.boots = 0
        self.clock = SimulatedClock(world.loop, plan.skew_seconds, plan.drift)
        if world.plan.layout == "memory":
            # These are handles in one process, which has one clock.
            self.clock = world.clock
        self.process = Process(self.name)
        self.network: NetworkStore | None = None
        self.clients: list[RecordingClient] = []
        self.luck = random.Random()
        self.engine: LedgerEngine | TasksEngine | None = None
        self.journal: Journal | None = None
        self.is_up = False
        self.store_off_seconds = 0.0
        """How far off the store's clock is, as this one sees it."""

    def boot(self) -> None:
        """Starts the process: a new one, with the same identity as ever."""
        self.boots += 1
        self.process = Process(self.name)
        self.luck = random.Random(f"{self.name} {self.boots} {self.world.plan.seed}")
        self.is_up = True
        self.spawn(self._live())

    def crash(self) -> None:
        """Gone in the middle of whatever it was doing; what was sent may still arrive."""
        self.is_up = False
        self.clients = []
        self.engine = self.journal = None
        self.world.loop.crash(self.process)

    def pause(self) -> None:
        self.world.loop.pause(self.process)

    def resume(self) -> None:
        self.world.loop.resume(self.process)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        context = self.world.loop.within(self.process)
        task: asyncio.Task[Any] = self.world.loop.create_task(work, context=context)
        return task

    async def close(self) -> None:
        """The orderly end, in the process itself."""
        engine = self.engine
        if engine is not None:
            await engine.stop()

    async def _live(self) -> None:
        provided = services(self.clock, self.luck)
        await self._open(provided)
        world = self.world
        for actor in world.actors(self):
            self.spawn(world.guarded(self, actor))

    async def _open(self, provided: Services) -> None:
        while True:
            try:
                engine = await self._engine(provided)
                await engine.start()
                try:
                    # A process whose clock is refused leaves, instead of going by that clock.
                    await engine.execute(Expire(SYSTEM_TENANT))
                    break
                except PenstockError:
                    await engine.stop()
                    raise
            except PenstockError as error:
                self.world.note(f"{self.name} can't open: {error}")
            except Exception as error:  # noqa: BLE001 - reported, and the simulation goes on
                self.world.history.surprises.append(f"{self.name} opening: {error!r}")
            await self.clock.sleep(OPENING_SECONDS)
        self.engine = engine
        plan = self.world.plan
        for tenant in plan.tenants:
            queue = Queue(
                engine,
                tenant=tenant,
                services=provided,
                inline_bytes_max=plan.inline_bytes_max,
                offload=True,
            )
            self.clients.append(
                RecordingClient(self.name, queue, engine, self.world.history, provided.new_secret)
            )

    async def visit(self, provided: Services, tenant: str, operation: str) -> Queue:
        """Another handle in the same process, whose claims have that operation."""
        visitor = copy(self)
        engine = await visitor._engine(provided)
        await engine.start()
        plan = self.world.plan
        return Queue(
            engine,
            tenant=tenant,
            services=replace(provided, new_secret=lambda: operation),
            inline_bytes_max=plan.inline_bytes_max,
            offload=True,
        )

    async def _engine(self, provided: Services) -> LedgerEngine | TasksEngine:
        plan = self.world.plan
        if plan.layout != "tasks":
            return LedgerEngine(
                lambda listener: self._open_journal(provided, listener),
                provided,
                group_commit=self.plan.group_commit,
                outcome_seconds_max=plan.outcome_seconds_max,
            )
        store = self._connect(provided)
        await ensure_marker(store, plan.layout, provided)
        return TasksEngine(
            store,
            provided,
            outcome_seconds_max=plan.outcome_seconds_max,
            on_close=store.close,
        )

    def _connect(self, provided: Services) -> ObjectStore:
        self.network = self.world.network(self)
        return Retrying(self.network, self.clock, luck=provided.luck)

    async def _open_journal(self, provided: Services, listener: Listener) -> Journal:
        journal = await self._journal(provided, listener)
        await journal.open()
        self.journal = journal
        return journal

    async def _journal(self, provided: Services, listener: Listener) -> Journal:
        world = self.world
        if world.plan.layout == "memory":
            return MemoryJournal(world.memory, provided, listener)
        patient = self._connect(provided)
        layout = await ensure_marker(patient, world.plan.layout, provided)
        if layout == "single":
            return SingleJournal(patient, provided, listener)
        journal = ShakenLogJournal(patient, provided, listener)
        journal.tail_objects = world.plan.tail_objects
        return journal
