"""Bulk imports in the simulation: small runs with tiny chunks, published until somebody says so."""

from __future__ import annotations

import asyncio
import random  # noqa: TID251 - a generator that is seeded, and nothing else
from typing import TYPE_CHECKING

from msgspec import Raw, Struct

from penstock.errors import OutcomeUnknown, PenstockError, RunProblem
from penstock.kernel.manifest import ImportManifest, Row
from penstock.testing.simulation.client import RecordingClient
from penstock.testing.simulation.node import Node
from penstock.testing.simulation.plan import TRIES_MAX
from penstock.wire.imports import Group, encode_rows, object_record

if TYPE_CHECKING:
    from penstock.testing.simulation.world import World

CHUNK_ROWS = 2
TYPES = ("ok", "slow", "flaky")


class Run(Struct):
    """A run that a node has to bring in, and remembers through crashes."""

    name: str
    rows: list[tuple[Group, float]]
    """The group of each, and in how many seconds it is due."""


def runs(world: World) -> dict[str, list[Run]]:
    """Drawn apart from everything else, so that a seed stands for the same world besides."""
    luck, plan = random.Random(f"imports {world.plan.seed}"), world.plan
    drawn: dict[str, list[Run]] = {node.name: [] for node in world.nodes}
    if plan.layout == "tasks":
        # It has no bulk imports.
        return drawn
    # What `queue.json` has forgotten can't be checked against what is in it.
    if plan.layout == "single" and plan.window_events < 1_000:
        return drawn
    for number in range(luck.choice([0, 0, 1, 2])):
        rows = [
            (
                (luck.choice(plan.tenants), luck.choice(plan.queues), luck.choice(TYPES),
                 luck.choice([0, 0, -1])),
                luck.choice([0.0, 0.0, 0.0, 3.0]),
            )
            for _ in range(luck.randint(1, 7))
        ]  # fmt: skip
        drawn[luck.choice(world.nodes).name].append(Run(f"run{number}", rows))
    return drawn


async def bring_runs(world: World, node: Node) -> None:
    todo = world.runs[node.name]
    while todo:
        run = todo[0]
        await node.clock.sleep(node.luck.uniform(0.0, world.plan.chaos_seconds))
        client = node.clients[0]
        for _ in range(TRIES_MAX):
            if await _published(world, node, client, run):
                await _cancel_one(node, run)
                break
            await node.clock.sleep(node.luck.uniform(0.05, 1.0))
        todo.remove(run)


async def _published(world: World, node: Node, client: RecordingClient, run: Run) -> bool:
    """Whether there is no need to try again."""
    patience = 1_000.0 if node.luck.random() < 0.8 or world.is_healed else node.luck.random()
    try:
        async with asyncio.timeout(patience):
            manifest = await _written(node, client, run)
            await client.publish(run.name, manifest)
        return True
    except RunProblem as error:
        world.note(f"{node.name} could not publish {run.name}: {error}")
        return True
    except (TimeoutError, OutcomeUnknown, PenstockError):
        return False


async def _written(node: Node, client: RecordingClient, run: Run) -> ImportManifest:
    groups: dict[Group, list[Row]] = {}
    for group, seconds in run.rows:
        due = node.clock.now() + seconds if seconds else None
        groups.setdefault(group, []).append(Row(Raw(b"7"), due))
    data, segments = encode_rows(sorted(groups.items()), CHUNK_ROWS)
    key = await client.backend.keep_import(run.name, data)
    return ImportManifest((object_record(key, data, segments),), len(run.rows))


async def _cancel_one(node: Node, run: Run) -> None:
    """Somebody changes their mind about a job that may not be admitted yet."""
    row = node.luck.randrange(len(run.rows))
    try:
        await node.luck.choice(node.clients).cancel(f"{run.name}.{row}")
    except PenstockError:
        return
