"""Ids that come back: of jobs that have left, while a vacuum of layout `tasks` lets them go."""

from __future__ import annotations

import random  # noqa: TID251 - seeded by the plan, and nothing else
from collections import Counter
from typing import TYPE_CHECKING, Final

from penstock.testing.simulation.node import Node
from penstock.testing.simulation.plan import Plan
from penstock.testing.simulation.workload import Errand, bring_again

if TYPE_CHECKING:
    from penstock.testing.simulation.world import World

ID_CHARACTERS: Final = 36


async def bring_back(world: World, node: Node) -> None:
    """An id whose job may have left by now, used again by choice."""
    if not node.clients:
        return
    client = node.luck.choice(node.clients)
    known = world.known[client.tenant]
    # Those that look like ours rather than others: some of these get deleted.
    known = [id for id in known if len(id) == ID_CHARACTERS] or known
    if known:
        id, name = node.luck.choice(known), node.luck.choice(world.plan.queues)
        await bring_again(world, node, client, id, name)


def with_ids_like_ours(errands: dict[str, list[Errand]], plan: Plan) -> dict[str, list[Errand]]:
    """Of layout `tasks`, some jobs with ids that penstock made, and some that only look like it."""
    if plan.layout != "tasks":
        return errands
    luck = random.Random(f"ids {plan.seed}")
    all = [errand for some in errands.values() for errand in some]
    uses = Counter((errand.tenant, errand.new.id) for errand in all)
    for errand in all:
        kind = luck.choice(["as it is", "made", "alike"])
        if kind == "as it is" or uses[errand.tenant, errand.new.id] > 1:
            continue
        digits = f"{luck.getrandbits(128):032x}"
        errand.new.id = (
            f"{digits[:8]}-{digits[8:12]}-7{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
        )
        if kind == "made":
            # As the client does where it has made the id.
            errand.operation = errand.new.id
    return errands
