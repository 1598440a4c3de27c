"""Callers that leave: cancelled at some await of their call, their handle closed right behind.

What a claim has got goes back. Every other call is asked once more by somebody who stays, as a
caller would who does not know what became of it: whether the first one was heard or not, that must
come to the same.
"""

from __future__ import annotations

import random  # noqa: TID251 - seeded by the plan, and nothing else
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock.client.newjob import NewJob
from penstock.client.queue import Queue
from penstock.errors import JobProblem, PenstockError
from penstock.kernel.job import Job
from penstock.testing.interruption import Interruption
from penstock.testing.simulation.client import RecordingClient
from penstock.testing.simulation.clocks import services
from penstock.testing.simulation.node import Node
from penstock.testing.simulation.plan import HUGE, RETRY, TRIES_MAX

if TYPE_CHECKING:
    from penstock.testing.simulation.world import World

Answer = TypeVar("Answer")
Ask = Callable[[RecordingClient], Coroutine[Any, Any, object]]

AWAITS_MAX: Final = 8
"""A call has not many more, and those of its payloads' fetches are alike."""
LONG_SECONDS: Final = 400.0
"""A lease that nobody holds is missed by then, and runs out before the world's patience does."""
PAUSE_SECONDS: Final = 0.7


async def leave(world: World, node: Node) -> None:
    """Some visits in the chaos, as many when it is over."""
    luck = random.Random(f"visits {node.name} {node.boots} {world.plan.seed}")
    for is_healed in (False, True):
        while is_healed and not world.is_healed and not world.is_ending:
            await node.clock.sleep(PAUSE_SECONDS)
        for number in range(world.plan.visits):
            if world.is_ending or (world.is_healed and not is_healed):
                break
            await node.clock.sleep(luck.expovariate(1 / PAUSE_SECONDS))
            visit = Visit(world, node, luck)
            try:
                await (visit.claim() if number % 2 == 0 else visit.ask_twice())
            except PenstockError as error:
                world.note(f"{node.name} was not well visited: {error}")


class Visit:
    """One call at a handle of its own, which may be cut off in the middle."""

    def __init__(self, world: World, node: Node, luck: random.Random) -> None:
        self._world = world
        self._node = node
        self._luck = luck
        self._name = f"{node.name}-visitor"
        self._tenant = luck.choice(world.plan.tenants)
        self._operation = f"{luck.getrandbits(128):032x}"

    async def claim(self) -> None:
        queue, history = await self._open(), self._world.history
        is_well = self._world.is_healed
        lease_seconds = LONG_SECONDS if is_well else self._node.plan.lease_seconds
        call = history.asked(self._name, "claim", self._tenant, self._operation, "")
        call.count, call.is_error = 2, True
        interruption = await self._cut(queue, queue.claim(call.count, lease_seconds=lease_seconds))
        history.answered(call)
        if interruption.happened:
            call.answer = "left" if is_well else "gone"
            return
        # It had fewer awaits than that, so it has what it asked for.
        jobs, call.is_error = interruption.result or [], False
        call.leases = tuple((job.id, job.lease) for job in jobs if job.lease is not None)
        await queue.release(jobs)
        await queue.close()

    async def ask_twice(self) -> None:
        """Asks for something and leaves; then somebody who stays asks for the same."""
        stays = next(one for one in self._node.clients if one.tenant == self._tenant)
        ask = await self._choose(stays)
        if ask is None:
            return
        queue = await self._open()
        client = RecordingClient(
            self._name, queue, queue._backend, self._world.history, stays.new_secret
        )
        interruption = await self._cut(queue, _told(ask(client)))
        if not interruption.happened:
            await queue.close()
        for _ in range(TRIES_MAX):
            if not isinstance(await _told(ask(stays)), PenstockError):
                return
            await self._node.clock.sleep(self._luck.uniform(0.05, 1.0))

    async def _choose(self, stays: RecordingClient) -> Ask | None:
        """Something to ask; nothing where there is no job to ask it of."""
        luck, plan, operation = self._luck, self._world.plan, self._operation
        kind = luck.choice(["enqueue", "enqueue", "ack", "nack", "release", "heartbeat", "cancel"])
        if kind == "enqueue":
            payload = {"huge": HUGE} if luck.random() < 0.5 else None
            id = f"visitor-{operation[:16]}"
            new = NewJob("ok", payload, queue=luck.choice(plan.queues), id=id, retry=RETRY)
            return lambda client: client.enqueue(new, operation)
        if kind == "cancel":
            known = self._world.known[self._tenant]
            return partial(RecordingClient.cancel, id=luck.choice(known)) if known else None
        lease_seconds = self._node.plan.lease_seconds
        for job in await stays.claim(1, operation, lease_seconds, None, self._name):
            return self._settling(kind, job, lease_seconds)
        return None

    def _settling(self, kind: str, job: Job, lease_seconds: float) -> Ask:
        assert job.lease is not None
        result = {"fence": job.lease.fence, "huge": HUGE}
        match kind:
            case "ack":
                return lambda client: client.ack(job, result)
            case "nack":
                return lambda client: client.nack(job, retry=True)
            case "release":
                return lambda client: client.release(job)
            case _:
                # What is only extended is not acked later: it runs out, like any job left alone.
                return lambda client: client.heartbeat(job, lease_seconds, None)

    async def _open(self) -> Queue:
        provided = services(self._node.clock, self._luck)
        return await self._node.visit(provided, self._tenant, self._operation)

    async def _cut(self, queue: Queue, work: Coroutine[Any, Any, Answer]) -> Interruption[Answer]:
        interruption = Interruption(
            work,
            at=self._luck.randint(1, AWAITS_MAX),
            moment="arrived" if self._luck.random() < 0.5 else "under way",
            behind=queue.close,
        )
        await interruption.run()
        return interruption


async def _told(asked: Awaitable[object]) -> PenstockError | None:
    """What has to be asked again; a lease that is lost needs nothing more."""
    try:
        await asked
    except JobProblem:
        return None
    except PenstockError as error:
        return error
    return None
