"""One script of operations, run on every backend in fair weather: all must tell the same story.

What may differ is left out: positions, and with them fences, since some backends have commits of
their own between; and how many ended jobs are still kept in memory.
"""

from __future__ import annotations

import random  # noqa: TID251 - seeded, and nothing else
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any

from penstock.client.newjob import NewJob
from penstock.errors import PenstockError
from penstock.kernel.invariants import Violation, same_observations
from penstock.kernel.job import Job
from penstock.kernel.retry import RetryPolicy
from penstock.testing.faults import Faults
from penstock.testing.simulation.client import RecordingClient
from penstock.testing.simulation.node import Node
from penstock.testing.simulation.plan import Plan, draw
from penstock.testing.simulation.world import World

LAYOUTS = ("memory", "log", "single")
STEPS = 60


def disagreements(seed: int) -> list[Violation]:
    """18. What differs between the backends, for the script of this seed."""
    first = observe(seed, LAYOUTS[0])
    found: list[Violation] = []
    for layout in LAYOUTS[1:]:
        found += same_observations(f"{LAYOUTS[0]} and {layout}", first, observe(seed, layout))
    return found


def observe(seed: int, layout: str) -> list[object]:
    world = ScriptedWorld(_fair(draw(seed, layout)))
    world.run()
    return world.observations


def _fair(plan: Plan) -> Plan:
    node = replace(plan.nodes[0], faults=Faults(), skew_seconds=0.0, drift=0.0, group_commit=True)
    # Under `single` ended jobs leave one commit later; times hide that, a count does not.
    settings = plan.settings.copy()
    settings.pop("finished_jobs_max", None)
    return replace(plan, nodes=(node,), bad_checkpoints=0.0, jobs=0, settings=settings)


class ScriptedWorld(World):
    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.observations: list[object] = []

    def actors(self, node: Node) -> list[Coroutine[Any, Any, None]]:
        return []

    async def _day(self) -> None:
        node = self.nodes[0]
        node.boot()
        while not node.clients:
            await self.clock.sleep(0.1)
        await node.spawn(self._play(node.clients[0]))
        await node.spawn(node.close())

    async def _play(self, client: RecordingClient) -> None:
        script = _Script(client, random.Random(f"script {self.plan.seed}"), self)
        await client.queue.configure(**self.plan.settings)
        for _ in range(STEPS):
            await script.step()


class _Script:
    def __init__(self, client: RecordingClient, luck: random.Random, world: ScriptedWorld) -> None:
        self._client = client
        self._queue = client.queue
        self._luck = luck
        self._world = world
        self._held: list[Job] = []
        self._claims = 0

    async def step(self) -> None:
        luck = self._luck
        if luck.random() < 0.3:
            await self._world.clock.sleep(luck.choice([0.5, 3.0, 40.0]))
        id, name = f"job{luck.randrange(12)}", luck.choice(["default", "images"])
        actions: list[tuple[str, Callable[[], Awaitable[object]]]] = [
            ("enqueue", lambda: self._enqueue(id, name)),
            ("enqueue", lambda: self._enqueue(id, name)),
            ("claim", self._claim),
            ("claim", self._claim),
            ("settle", self._settle),
            ("settle", self._settle),
            ("settle", self._settle),
            ("cancel", lambda: self._queue.cancel(id)),
            ("replay", lambda: self._queue.replay(id)),
            ("archive", lambda: self._queue.archive(id)),
            ("unarchive", lambda: self._queue.unarchive(id)),
            ("pause", lambda: self._queue.pause(name)),
            ("resume", lambda: self._queue.resume(name)),
            ("expire", self._queue.expire),
            ("get", lambda: self._get(id)),
            ("history", lambda: self._history(id)),
            ("stats", self._stats),
            ("jobs", self._jobs),
        ]
        kind, act = luck.choice(actions)
        try:
            outcome = await act()
        except PenstockError as error:
            outcome = type(error).__name__
        self._world.observations.append((kind, id, name, outcome))

    async def _enqueue(self, id: str, name: str) -> object:
        luck = self._luck
        new = NewJob(
            luck.choice(["ok", "other"]),
            {"value": luck.randrange(10)},
            queue=name,
            id=id,
            key=luck.choice([None, "key"]),
            unique_seconds=luck.choice([0.0, 5.0]),
            priority=luck.choice([0, 1]),
            delay_seconds=luck.choice([0.0, 0.0, 4.0]),
            max_attempts=luck.choice([1, 3]),
            retry=RetryPolicy(jitter=0.0),  # its luck is shared with what the backend does besides
        )
        receipt = (await self._queue.enqueue_many([new]))[0]
        if isinstance(receipt, PenstockError):
            raise receipt
        return receipt.id, receipt.status, receipt.state, receipt.result

    async def _claim(self) -> object:
        self._claims += 1
        jobs = await self._client.claim(
            self._luck.randint(1, 3), f"{self._claims:032x}", 10.0, None, "worker"
        )
        self._held += jobs
        return [(job.id, job.attempt, job.lease_until) for job in jobs]

    async def _settle(self) -> object:
        if not self._held:
            return None
        job, luck = self._luck.choice(self._held), self._luck
        match luck.randrange(5):
            case 0:
                return await self._queue.heartbeat(job, progress=luck.choice([None, 0.5]))
            case 1:
                return await self._queue.nack(job, "boom", retry=luck.random() < 0.7)
            case 2:
                await self._queue.release(job)
            case 3:
                await self._queue.snooze(job, self._world.clock.now() + 5.0)
            case _:
                await self._queue.ack(job, {"attempt": job.attempt})
        return "done"

    async def _get(self, id: str) -> object:
        job = await self._queue.get(id)
        if job is None:
            return None
        errors = [(error.attempt, error.kind, error.message) for error in job.errors]
        return (
            job.state, job.attempt, job.failures, job.payload, job.result, job.progress,
            job.ended_at, job.archived_at, errors,
        )  # fmt: skip

    async def _history(self, id: str) -> object:
        return [(event.event, event.at) for event in await self._queue.history(id)]

    async def _stats(self) -> object:
        stats = await self._queue.stats()
        return stats.totals, stats.queues

    async def _jobs(self) -> object:
        return [(job.id, job.state) async for job in self._queue.jobs()]
