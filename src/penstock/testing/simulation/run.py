"""Running one seed, and what comes of it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b

from msgspec import Struct

from penstock.kernel.invariants import Violation
from penstock.testing.simulation.loop import Stuck
from penstock.testing.simulation.plan import draw
from penstock.testing.simulation.verdict import violations
from penstock.testing.simulation.world import World
from penstock.wire.commit import encode_event


class Report(Struct, frozen=True):
    seed: int
    layout: str
    violations: list[Violation]
    trace: str
    """The same for the same seed, or something other than the seed has decided."""
    commits: int
    calls: int
    seconds: float
    """Virtual ones."""
    steps: int
    ghosts: int
    notes: list[str]


def run_seed(seed: int, layout: str | None = None) -> Report:
    """One simulated world, from its first commit to the verdict."""
    world = World(draw(seed, layout))
    stuck: list[Violation] = []
    with _collector_off():
        try:
            world.run()
        except Stuck as error:
            stuck.append(Violation(17, str(error)))
        found = stuck + violations(world)
    return Report(
        seed=seed,
        layout=world.plan.layout,
        violations=found,
        trace=_trace(world),
        commits=world.head(),
        calls=len(world.history.calls),
        seconds=world.loop.time(),
        steps=world.loop.steps,
        ghosts=world.store.ghosts,
        notes=world.notes,
    )


@contextmanager
def _collector_off() -> Iterator[None]:
    """A world is small and soon over; looking for garbage in it takes a sixth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _trace(world: World) -> str:
    digest = blake2b(digest_size=8)
    for commit in world.log.commits():
        digest.update(f"{commit.commit_id} {commit.at!r}".encode())
        for event in commit.events:
            digest.update(encode_event(event))
    for call in world.history.calls:
        digest.update(repr(call).encode())
    digest.update(f"{world.loop.time()!r} {world.loop.steps}".encode())
    return digest.hexdigest()
