"""Callers that leave: cancelled at some await of their claim, their handle closed right behind."""

from __future__ import annotations

import random  # noqa: TID251 - seeded by the plan, and nothing else
from typing import TYPE_CHECKING, Final

from penstock.client.queue import Queue
from penstock.errors import PenstockError
from penstock.testing.interruption import Interruption
from penstock.testing.simulation.clocks import services
from penstock.testing.simulation.node import Node

if TYPE_CHECKING:
    from penstock.testing.simulation.world import World

AWAITS_MAX: Final = 8
"""A claim has not many more, and those of its payloads' fetches are alike."""
LONG_SECONDS: Final = 400.0
"""A lease that nobody holds is missed by then, and runs out before the world's patience does."""
PAUSE_SECONDS: Final = 0.7


async def leave(world: World, node: Node) -> None:
    """Some visits in the chaos, as many when it is over."""
    luck = random.Random(f"visits {node.name} {node.boots} {world.plan.seed}")
    provided = services(node.clock, luck)
    for is_healed in (False, True):
        while is_healed and not world.is_healed and not world.is_ending:
            await node.clock.sleep(PAUSE_SECONDS)
        for _ in range(world.plan.visits):
            if world.is_ending or (world.is_healed and not is_healed):
                break
            await node.clock.sleep(luck.expovariate(1 / PAUSE_SECONDS))
            operation = f"{luck.getrandbits(128):032x}"
            try:
                queue = await node.visit(provided, luck.choice(world.plan.tenants), operation)
                await _visit(world, node, queue, operation, luck)
            except PenstockError as error:
                world.note(f"{node.name} was not well visited: {error}")


async def _visit(
    world: World, node: Node, queue: Queue, operation: str, luck: random.Random
) -> None:
    is_well = world.is_healed
    lease_seconds = LONG_SECONDS if is_well else node.plan.lease_seconds
    call = world.history.asked(f"{node.name}-visitor", "claim", queue.tenant, operation, "")
    call.count, call.is_error = 2, True
    interruption = Interruption(
        queue.claim(call.count, lease_seconds=lease_seconds),
        at=luck.randint(1, AWAITS_MAX),
        moment="arrived" if luck.random() < 0.5 else "under way",
        behind=queue.close,
    )
    await interruption.run()
    world.history.answered(call)
    if interruption.happened:
        call.answer = "left" if is_well else "gone"
        return
    # It had fewer awaits than that, so it has what it asked for.
    jobs, call.is_error = interruption.result or [], False
    call.leases = tuple((job.id, job.lease) for job in jobs if job.lease is not None)
    await queue.release(jobs)
    await queue.close()
