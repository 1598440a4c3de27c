"""The simulated world: its store, its machines, its weather, and the phases of its day.

Chaos, then healing, then everything that was accepted has to come to its end; then the verdict.
"""

from __future__ import annotations

import asyncio
import contextlib
import random  # noqa: TID251 - seeded by the plan, and nothing else
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from penstock.client.newjob import NewJob
from penstock.client.queue import Queue
from penstock.engines.ledger.memory import SharedMemory
from penstock.engines.ledger.single import document
from penstock.engines.ledger.single import journal as single_journal
from penstock.errors import PenstockError
from penstock.kernel.events import position_of
from penstock.stores.memory import MemoryStore
from penstock.testing.faults import Faults
from penstock.testing.simulation import importing, returning, workload
from penstock.testing.simulation.clocks import EPOCH_SECONDS, SimulatedClock
from penstock.testing.simulation.committed import CommittedLog, committed_log
from penstock.testing.simulation.history import Following, History
from penstock.testing.simulation.loop import SimulatedLoop
from penstock.testing.simulation.node import Node
from penstock.testing.simulation.plan import DAY_SECONDS, HUGE, RETRY, Plan
from penstock.testing.simulation.stores import NetworkStore, RememberedStore

LIVENESS_SECONDS = 1_200.0
"""After healing every job must have ended within this."""
SETTLING_SECONDS = 12.0
"""Longer than the last housekeeping takes, and followers to hear of it."""
AGAIN_PER_VACUUM = 4
"""How many ids are brought back while a vacuum of layout `tasks` lets them go."""
NIGHT_SECONDS = 4_000.0
"""Longer than the shortest retention."""


class World:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.luck = random.Random(f"world {plan.seed}")
        self.loop = SimulatedLoop(  # type: ignore[abstract]  # the rest is about I/O
            random.Random(f"loop {plan.seed}")
        )
        self.clock = SimulatedClock(self.loop)
        self.memory = SharedMemory(MemoryStore(), "simulated")
        self.store = RememberedStore(lambda: EPOCH_SECONDS + self.loop.time())
        self.history = History(self.head, self.loop.time)
        self.log: CommittedLog = committed_log(self)
        self.notes: list[str] = []
        self.is_configured = self.is_healed = self.is_ending = self.is_over = False
        self.known: dict[str, list[str]] = {tenant: [] for tenant in plan.tenants}
        self.pace_seconds = plan.chaos_seconds / max(plan.jobs, 1)
        self.nodes = [Node(self, number, node) for number, node in enumerate(plan.nodes)]
        self.errands = self._errands()
        self.runs = importing.runs(self)
        self.violations_of_phases: list[str] = []

    # What nodes and actors ask of it

    def head(self) -> int:
        """How many commits are durable."""
        return self.memory.head.commit if self.plan.layout == "memory" else self.store.head

    @property
    def rest_seconds(self) -> float:
        return 20.0 if self.is_healed else 3.0

    def network(self, node: Node) -> NetworkStore:
        return NetworkStore(
            self.store,
            self.loop,
            random.Random(f"network {node.name} {self.loop.steps} {self.plan.seed}"),
            Faults(latency_seconds=0.01) if self.is_healed else node.plan.faults,
            bad_checkpoints=0.0 if self.is_healed else self.plan.bad_checkpoints,
            off_seconds=node.store_off_seconds,
        )

    def actors(self, node: Node) -> list[Coroutine[Any, Any, None]]:
        return workload.actors(self, node)

    async def guarded(self, node: Node, actor: Coroutine[Any, Any, None]) -> None:
        try:
            await actor
        except PenstockError as error:
            if not self.is_over:
                self.history.surprises.append(f"{node.name}: {error!r}")
        except Exception as error:  # noqa: BLE001 - reported with the verdict
            self.history.surprises.append(f"{node.name}: {error!r}")

    def following(self, name: str, tenant: str, since: int = 0) -> Following:
        """The newest stream of that follower, or a new one that begins there."""
        known = [one for one in self.history.followings if one.name == name]
        if known and not since:
            return known[-1]
        return self.history.follow(name, tenant, since)

    def beginning(self) -> int:
        """The first position that is still there: what was vacuumed before is no gap."""
        return position_of(self.store.floor, 0)

    def note(self, what: str) -> None:
        self.notes.append(f"{self.loop.time():9.3f} {what}")

    # The day

    def run(self) -> None:
        with _shaken_window(self.plan.window_events):
            try:
                self.loop.run_until_complete(self._day())
            finally:
                surprises = list(self.history.surprises)
                self.loop.close()
                # The last words of what is closed by force are no news.
                self.history.surprises[:] = surprises

    async def _day(self) -> None:
        for node in self.nodes:
            node.boot()
        weather = [
            self.loop.create_task(storm)
            for storm in (self._crashes(), self._pauses(), self._wrong_clocks(), self._wrong_days())
        ]
        await self.clock.sleep(self.plan.chaos_seconds)
        for _ in range(self.plan.nights):
            await self._night()
        for storm in weather:
            storm.cancel()
        await self._heal()
        await self._live_on()
        await self._close()

    async def _crashes(self) -> None:
        while self.plan.crash_seconds:
            await self.clock.sleep(self.luck.expovariate(1 / self.plan.crash_seconds))
            node = self.luck.choice(self.nodes)
            if node.is_up:
                self.note(f"{node.name} crashes")
                node.crash()
                await self.clock.sleep(self.luck.uniform(0.0, 4.0))
                self._boot_if_down(node)

    def _boot_if_down(self, node: Node) -> None:
        if not node.is_up:
            node.boot()

    async def _pauses(self) -> None:
        while self.plan.pause_seconds:
            await self.clock.sleep(self.luck.expovariate(1 / self.plan.pause_seconds))
            node = self.luck.choice(self.nodes)
            seconds = self.luck.choice([0.1, 1.0, 2.0 * node.plan.lease_seconds + 3.0])
            self.note(f"{node.name} pauses for {seconds:g} s")
            node.pause()
            await self.clock.sleep(seconds)
            node.resume()

    async def _wrong_clocks(self) -> None:
        while self.plan.jump_seconds_max:
            await self.clock.sleep(self.luck.expovariate(0.1))
            node = self.luck.choice(self.nodes)
            limit = self.plan.jump_seconds_max
            seconds = self.luck.uniform(-limit, limit)
            self.note(f"the clock of {node.name} is set to be off by {seconds:+.3f} s")
            node.clock.set(seconds)

    async def _wrong_days(self) -> None:
        """A process lives through a while in which the store's clock, and its own, are days off."""
        luck = random.Random(f"days {self.plan.seed}")
        for days in self.plan.days:
            await self.clock.sleep(luck.uniform(0.1, 0.5) * self.plan.chaos_seconds)
            node = luck.choice(self.nodes)
            for off_seconds in (days * DAY_SECONDS, 0.0):
                self.note(f"{node.name} begins anew, and is off by {off_seconds:+.0f} s")
                node.crash()
                node.clock.set(off_seconds)
                node.store_off_seconds = off_seconds
                node.boot()
                if off_seconds:
                    await self.clock.sleep(luck.uniform(0.5, 5.0))

    async def _night(self) -> None:
        """One falls asleep with a request on its lips and wakes up to a vacuumed log."""
        sleeper = self.luck.choice(self.nodes)
        is_of_tasks = self.plan.layout == "tasks"
        if sleeper.network is not None and not is_of_tasks:
            sleeper.network.spring = self.luck.choice(["log/", "data/", ""])
            sleeper.network.on_spring = sleeper.pause
        await self.clock.sleep(self.luck.uniform(0.5, 4.0))
        sleeper.pause()
        await self.clock.sleep(self.luck.uniform(0.5, 4.0))
        self.note(f"night; {sleeper.name} sleeps on")
        if is_of_tasks and await self.store.is_deleting():
            self._let_no_delete_sleep(sleeper)
        self.loop.jump(NIGHT_SECONDS)
        for node in self.nodes:
            # Over a night the time service catches a drifting clock; a wrong one stays wrong.
            node.clock.undrift()
        for _ in range(3):
            await self.clock.sleep(self.luck.uniform(0.3, 2.0))
            awake = [node for node in self.nodes if node is not sleeper and node.clients]
            if awake:
                keeper = self.luck.choice(awake)
                keeper.spawn(self.guarded(keeper, self._vacuum(keeper)))
                for _ in range(AGAIN_PER_VACUUM * is_of_tasks):
                    brought = returning.bring_back(self, self.luck.choice(awake))
                    keeper.spawn(self.guarded(keeper, brought))
        await self.clock.sleep(self.luck.uniform(0.3, 2.0))
        self.note(f"{sleeper.name} wakes up")
        sleeper.resume()
        await self.clock.sleep(self.luck.uniform(0.5, 3.0))

    def _let_no_delete_sleep(self, sleeper: Node) -> None:
        """Layout `tasks` can't help a delete that is sent a night after its last look."""
        for node in self.nodes:
            node.crash()
            node.boot()
        sleeper.pause()

    async def _vacuum(self, node: Node) -> None:
        try:
            report = await node.clients[0].queue.vacuum()
            self.note(f"{node.name} vacuums: {report}")
        except PenstockError as error:
            self.note(f"{node.name} can't vacuum: {error}")

    async def _heal(self) -> None:
        self.note("healing")
        self.is_healed = True
        for node in self.nodes:
            if node.store_off_seconds:
                # What it has compared its clock with was wrong: it begins anew.
                node.crash()
            node.clock.set(0.0)
            node.store_off_seconds = 0.0
            if node.network is not None:
                await node.network.heal()
                node.network.on_spring = None
                node.network.bad_checkpoints = 0.0
                node.network.faults = Faults(latency_seconds=0.01)
            node.resume()
            self._boot_if_down(node)

    async def _live_on(self) -> None:
        """Until all that was accepted has ended and been heard of, or it takes too long."""
        until = self.loop.time() + LIVENESS_SECONDS
        while self.loop.time() < until:
            await self.clock.sleep(2.0)
            await self._resume_queues()
            if self._is_quiet():
                # What was asked before may still be on its way, and open a job once more.
                self.is_ending = True
                await self.clock.sleep(SETTLING_SECONDS)
                if self._is_quiet() and self._followers_are_done():
                    break
        else:
            self.history.surprises.append(f"not quiet {LIVENESS_SECONDS:g} s after healing")
        for following in self.history.followings:
            if not following.seen and not following.since:
                following.since = self.beginning() - 1

    def _is_quiet(self) -> bool:
        are_brought = not any(self.errands.values()) and not any(self.runs.values())
        return are_brought and self.log.is_quiet() and not self.log.paused()

    def _followers_are_done(self) -> bool:
        """Whether each has seen the last event there is for it, if that is still there."""
        newest = {following.name: following for following in self.history.followings}
        last = {name: self.log.last_of(one.tenant) for name, one in newest.items()}
        return all(
            one.reached >= last[name] or last[name] < self.beginning()
            for name, one in newest.items()
        )

    async def _resume_queues(self) -> None:
        for tenant, queue in self.log.paused():
            for node in self.nodes:
                for client in node.clients:
                    if client.tenant == tenant:
                        node.spawn(self._resume(client.queue, queue))
                        break

    async def _resume(self, queue: Queue, name: str) -> None:
        with contextlib.suppress(PenstockError):
            await queue.resume(name)

    async def _close(self) -> None:
        self.is_over = True
        closing = [node.spawn(node.close()) for node in self.nodes]
        _, late = await asyncio.wait(closing, timeout=120.0)
        for task in late:
            self.history.surprises.append(f"a stop did not end: {task!r}")
        for task in closing:
            if task.done() and task.exception() is not None:
                self.history.surprises.append(f"a stop failed: {task.exception()!r}")

    def _errands(self) -> dict[str, list[workload.Errand]]:
        luck, plan = self.luck, self.plan
        errands: dict[str, list[workload.Errand]] = {node.name: [] for node in self.nodes}
        ids: list[tuple[str, str]] = []
        for number in range(plan.jobs):
            tenant = luck.choice(plan.tenants)
            id = f"job{number}"
            if ids and luck.random() < plan.reused_ids:
                tenant, id = luck.choice(ids)
            ids.append((tenant, id))
            new = NewJob(
                type=luck.choice(plan.types),
                payload={"n": number, "huge": HUGE} if luck.random() < 0.3 else number,
                queue=luck.choice(plan.queues),
                id=id,
                key=luck.choice([None, None, None, "key", "other"]),
                unique_seconds=luck.choice([0.0, 0.0, 3.0]),
                priority=luck.choice([0, 0, 0, -1, 5]),
                delay_seconds=luck.choice([0.0, 0.0, 0.0, 2.0, 10.0]),
                max_attempts=luck.choice([1, 2, 4]),
                retry=RETRY,
            )
            is_call = new.key is None and luck.random() < 0.15
            errand = workload.Errand(tenant, new, f"operation{number}", is_call=is_call)
            errands[luck.choice(self.nodes).name].append(errand)
        return returning.with_ids_like_ours(errands, plan)


@contextmanager
def _shaken_window(events: int) -> Iterator[None]:
    """Has `queue.json` forget sooner than it does."""
    before = document.WINDOW_EVENTS_MAX
    single_journal.WINDOW_EVENTS_MAX = events  # type: ignore[attr-defined]  # a shaking point
    try:
        yield
    finally:
        single_journal.WINDOW_EVENTS_MAX = before  # type: ignore[attr-defined]
