"""What a later version of penstock has written is refused whole, and left as it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock import Job, NewJob, Queue
from penstock.engines.records.tasks.charter import IDLE_SECONDS
from penstock.engines.records.tasks.names import CHARTER, KEYS, LEASES, READY, task_key, task_name
from penstock.errors import NewerFormat, OutcomeUnknown
from penstock.kernel.commands import EndFilling, Expire
from penstock.kernel.events import SYSTEM_TENANT
from penstock.kernel.settings import DEFAULT_SETTINGS
from penstock.ports.store import Overwrite
from penstock.testing.conformance.backend.steps import claimed, ids
from penstock.wire.level import FORMAT_LEVEL, UNMOVED_LEVEL, signed
from tests.tasks_layout.test_moving import FILL
from tests.tasks_layout.worlds import World

Act = Callable[[Queue, Job], Awaitable[Any]]
NEWER = signed(b'{"format":%d,"something":"else"}' % (FORMAT_LEVEL + 1))
FENCES = 2**62
"""Higher than any that a queue of times would give out by itself."""
WAITING = task_key(task_name("default", "waiting"))

ON_ALL: dict[str, Act] = {
    "claim": lambda queue, _: queue.claim(),
    "list": lambda queue, _: ids(queue),
    "count": lambda queue, _: queue.stats(),
    "vacuum": lambda queue, _: queue.vacuum(),
    "repair": lambda queue, _: queue.repair(),
    "move": lambda queue, _: queue._backend.execute(FILL),
}
ON_ONE: dict[str, Act] = {
    "enqueue": lambda queue, _: queue.enqueue("work", id="waiting"),
    "get": lambda queue, _: queue.get("waiting"),
    "cancel": lambda queue, _: queue.cancel("waiting"),
    "history": lambda queue, _: queue.history("waiting"),
}
ON_OTHERS: dict[str, Act] = {
    "enqueue another": lambda queue, _: queue.enqueue("work", id="another"),
    "ack": lambda queue, held: queue.ack(held),
    "heartbeat": lambda queue, held: queue.heartbeat(held),
    "expire": lambda queue, _: queue._backend.execute(Expire("default")),
    "pause": lambda queue, _: queue.pause("default"),
}


async def contents(world: World) -> dict[str, bytes]:
    return {key: (await world.store.get(key)).data for key in await world.keys("")}


async def older(world: World, queue: Queue, key: str) -> tuple[Job, dict[str, bytes]]:
    """A lease that is held, and all there is after an object was put by newer code."""
    held = await claimed(queue, id="held")
    await queue.enqueue_many([NewJob("work", id="waiting", key="k")])
    await world.store.put(key, NEWER, Overwrite())
    await world.clock.advance(IDLE_SECONDS + 1)
    return held, await contents(world)


@pytest.mark.parametrize("act", [*ON_ALL, *ON_ONE])
async def test_a_newer_task_is_not_passed_over(act: str) -> None:
    world = World()
    async with world.open() as queue:
        held, before = await older(world, queue, WAITING)
        with pytest.raises(NewerFormat, match="upgrade"):
            await (ON_ALL | ON_ONE)[act](queue, held)
        assert (await contents(world))[WAITING] == before[WAITING]


@pytest.mark.parametrize("act", [*ON_ALL, *ON_ONE, *ON_OTHERS])
async def test_with_a_newer_charter_nothing_is_done(act: str) -> None:
    world = World()
    async with world.open() as queue:
        held, before = await older(world, queue, CHARTER)
        with pytest.raises(NewerFormat, match="upgrade"):
            await (ON_ALL | ON_ONE | ON_OTHERS)[act](queue, held)
    assert await contents(world) == before
    with pytest.raises(NewerFormat):
        async with world.open():
            raise AssertionError("it was opened")


async def test_whoever_meets_a_newer_charter_in_the_middle_stops_there() -> None:
    world = World()
    async with world.open() as queue:
        await queue.enqueue_many([NewJob("work", id=str(n)) for n in range(3)])
        await world.store.put(CHARTER, NEWER, Overwrite())
        with pytest.raises(OutcomeUnknown):
            await queue.enqueue("work", id="late")
        before = await contents(world)
        for act in (queue.enqueue("work", id="later"), queue.claim()):
            with pytest.raises(NewerFormat):
                await act
        assert await contents(world) == before


async def test_a_claim_that_meets_a_newer_charter_takes_nothing() -> None:
    world = World()
    async with world.open() as queue:
        await queue.enqueue("work", id="job")
        await world.store.put(CHARTER, NEWER, Overwrite())
        with pytest.raises(NewerFormat):
            await queue.claim()
    assert b"claimed" not in (await contents(world))[task_key(task_name("default", "job"))]


async def test_a_newer_key_is_not_taken() -> None:
    world = World()
    async with world.open() as queue:
        await queue.enqueue("work", id="waiting", key="k")
        [key] = await world.keys(KEYS)
        await world.store.put(key, NEWER, Overwrite())
        for act in (queue.enqueue("work", key="k"), queue._backend.contents()):
            with pytest.raises(NewerFormat, match="upgrade"):
                await act
        assert (await contents(world))[key] == NEWER


@pytest.mark.parametrize("index", [READY, LEASES])
async def test_an_entry_of_another_form_means_nothing_and_stays(index: str) -> None:
    world = World()
    entry = f"{index}0/v2/000000001/default.job"
    async with world.open() as queue:
        await world.store.put(entry, b"", Overwrite())
        assert await queue.claim() == []
        world.clock.jump(3_600)
        assert (await queue.repair()).removed == 0
    assert entry in await world.keys(index)


async def test_a_marker_of_newer_code_is_refused_at_open() -> None:
    world = World()
    async with world.open():
        marker = (await world.store.get("penstock.json")).data
    newer = marker.replace(b'"format":%d' % UNMOVED_LEVEL, b'"format":%d' % (FORMAT_LEVEL + 1))
    assert newer != marker
    await world.store.put("penstock.json", newer, Overwrite())
    with pytest.raises(NewerFormat, match="upgrade"):
        async with world.open():
            raise AssertionError("it was opened")


async def test_a_task_has_the_level_of_what_is_in_it() -> None:
    """A queue that was filled gives out fences that code from before moves would lose."""
    world, opened = (
        World(),
        EndFilling(SYSTEM_TENANT, "m1", 0, "", FENCES, DEFAULT_SETTINGS, {}, {}, (), {}),
    )
    key = task_key(task_name("default", "job"))
    async with world.open() as queue:
        await queue._backend.execute(FILL)
        await queue._backend.execute(opened)
        await queue.enqueue("work", id="job")
        assert b'{"format":%d,' % UNMOVED_LEVEL in (await contents(world))[key]
        [job] = await queue.claim()
        assert job.lease is not None
        assert job.lease.fence > FENCES
        assert b'{"format":%d,' % FORMAT_LEVEL in (await contents(world))[key]
