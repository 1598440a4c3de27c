"""A command cut into items, each about one job, and these into lanes that can go side by side.

Commands are served at the same time; what they ask of the same job is kept in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct

from penstock.kernel.commands import (
    Ack,
    AnyCommand,
    Archive,
    Cancel,
    Enqueue,
    Heartbeat,
    Nack,
    Release,
    Replay,
    Unarchive,
)


class Item(Struct, frozen=True):
    tenant: str
    id: str
    command: AnyCommand
    """The same, with a list of one."""
    touches: tuple[Hashable, ...]
    """What it must not touch at the same time as another."""


def items_of(command: AnyCommand) -> list[Item]:
    tenant = command.tenant
    match command:
        case Enqueue():
            return [
                Item(
                    tenant,
                    new.id,
                    Enqueue(tenant, [new]),
                    (new.id,) if new.key is None else (new.id, (new.queue, new.type, new.key)),
                )
                for new in command.jobs
            ]
        case Ack():
            return [Item(tenant, one.id, Ack(tenant, [one]), (one.id,)) for one in command.items]
        case Heartbeat():
            return [
                Item(tenant, one.id, Heartbeat(tenant, [one]), (one.id,)) for one in command.items
            ]
        case Nack():
            return [Item(tenant, one.id, Nack(tenant, [one]), (one.id,)) for one in command.items]
        case Release():
            return [
                Item(tenant, one.id, Release(tenant, [one]), (one.id,)) for one in command.items
            ]
        case Cancel() | Replay() | Archive() | Unarchive():
            make = type(command)
            return [Item(tenant, id, make(tenant, [id]), (id,)) for id in command.ids]
        case _:
            raise AssertionError(f"{type(command).__name__} is not about single jobs")


def lanes(items: Sequence[Item]) -> list[list[int]]:
    """Places of items, in order: those in different lanes touch nothing in common."""
    above: dict[Hashable, Hashable] = {}

    def root(thing: Hashable) -> Hashable:
        while (parent := above.setdefault(thing, thing)) != thing:
            above[thing] = above[parent]
            thing = parent
        return thing

    for item in items:
        first = root(item.touches[0])
        for other in item.touches[1:]:
            above[root(other)] = first
    found: dict[Hashable, list[int]] = {}
    for place, item in enumerate(items):
        found.setdefault(root(item.touches[0]), []).append(place)
    return list(found.values())


class InOrder:
    """What is asked of one job by this process is done in the order in which it was asked."""

    def __init__(self) -> None:
        self._last: dict[Hashable, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def turn(self, thing: Hashable) -> AsyncIterator[None]:
        """From entering on, others who enter later wait until the block has ended."""
        before = self._last.get(thing)
        ended = self._last[thing] = asyncio.get_running_loop().create_future()
        try:
            if before is not None:
                await asyncio.wait([before])
            yield
        finally:
            ended.set_result(None)
            if self._last.get(thing) is ended:
                del self._last[thing]
