"""What the simulated processes do all day: producers, workers, meddlers, followers, keepers."""

from __future__ import annotations

import asyncio
import random  # noqa: TID251 - seeded by the plan, and nothing else
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from penstock.client.newjob import NewJob
from penstock.errors import (
    CallTimeout,
    Gap,
    InvalidInput,
    JobProblem,
    ObjectNotFound,
    OutcomeUnknown,
    PenstockError,
    QueueClosed,
    StoreError,
)
from penstock.kernel.events import position_of
from penstock.kernel.job import Job
from penstock.testing.simulation.client import RecordingClient
from penstock.testing.simulation.clocks import services
from penstock.testing.simulation.importing import bring_runs
from penstock.testing.simulation.leaving import leave
from penstock.testing.simulation.node import Node
from penstock.testing.simulation.plan import HUGE, TRIES_MAX

if TYPE_CHECKING:
    from penstock.testing.simulation.world import World

BLUNDER_SECONDS = 5.0
BAD_RESULTS = 0.1
SHORT_LIVES_EVERY = 4
"""In one of so many worlds those who enqueue live for one call."""
POISON: tuple[Any, ...] = (
    Raw(b"{oops"), {"x": [Raw(b"<html>")]}, Raw(b'"\xff"'), [Raw(b"1e999")],
    Raw(b"[" * 500 + b"]" * 500), float("nan"), {"x": (None, float("inf"))}, "\ud800", object(),
)  # fmt: skip
"""What nobody could read back."""
VACUUM_SECONDS_MAX = 13_000.0
"""A vacuum that began before a consumer registered may still pass it by, also after its nights."""


class OddText(str):
    """As libraries hand them out; it means the text that it is."""

    __slots__ = ()


class OddNumber(int):
    pass


class Errand:
    """One job that a producer has to bring in, and remembers through crashes."""

    def __init__(self, tenant: str, new: NewJob, operation: str, *, is_call: bool) -> None:
        self.tenant = tenant
        self.new = new
        self.operation = operation
        self.is_call = is_call


def actors(world: World, node: Node) -> list[Coroutine[Any, Any, None]]:
    """Everything that runs in one process."""
    running = [produce(world, node)]
    if world.runs[node.name]:
        running.append(bring_runs(world, node))
    for client in node.clients:
        running += [
            work(world, node, client, f"{node.name}-{client.tenant}-{number}")
            for number in range(node.plan.workers)
        ]
        if node.plan.is_follower and world.plan.layout != "tasks":
            running.append(follow(world, node, client))
        if world.plan.meddling:
            running.append(meddle(world, node, client))
    if world.plan.visits:
        running.append(leave(world, node))
    running.append(blunder(world, node))
    running.append(keep_house(world, node))
    return running


async def produce(world: World, node: Node) -> None:
    errands = world.errands[node.name]
    while errands:
        errand = errands[0]
        await node.clock.sleep(node.luck.expovariate(1.0 / world.pace_seconds))
        client = next(one for one in node.clients if one.tenant == errand.tenant)
        world.known[errand.tenant].append(errand.new.id or "")
        for _ in range(TRIES_MAX):
            if world.plan.seed % SHORT_LIVES_EVERY == 0 and not errand.is_call:
                is_brought = await _brought_by_a_short_life(world, node, errand)
            else:
                is_brought = await _brought(world, node, client, errand)
            if is_brought:
                break
            if not world.plan.clients_retry:
                break
            await node.clock.sleep(node.luck.uniform(0.05, 1.0))
        errands.remove(errand)


async def _brought(world: World, node: Node, client: RecordingClient, errand: Errand) -> bool:
    """Whether the producer need not try again."""
    patience = 1_000.0 if node.luck.random() < 0.9 or world.is_healed else node.luck.random()
    try:
        async with asyncio.timeout(patience):
            if errand.is_call:
                await client.call(errand.new, errand.operation, timeout_seconds=20.0)
            else:
                await client.enqueue(errand.new, errand.operation)
        return True
    except CallTimeout:
        return True
    except (TimeoutError, OutcomeUnknown, StoreError, JobProblem):
        return False
    except PenstockError as error:
        world.note(f"{node.name} could not bring {errand.new.id}: {error}")
        return False


async def _brought_by_a_short_life(world: World, node: Node, errand: Errand) -> bool:
    """The same by a process that lives for this one call, as a script or a web request may."""
    provided = services(node.clock, random.Random(f"{errand.operation} {node.luck.random()}"))
    try:
        queue = await node.visit(provided, errand.tenant, errand.operation)
    except PenstockError as error:
        world.note(f"{node.name} could not begin a short life: {error}")
        return False
    client = RecordingClient(
        f"{node.name}-once", queue, queue._backend, world.history, provided.new_secret
    )
    is_brought = await _brought(world, node, client, errand)
    await queue.close()
    return is_brought


async def work(world: World, node: Node, client: RecordingClient, name: str) -> None:
    queues = None if node.luck.random() < 0.5 else world.plan.queues
    while not world.is_over:
        operation = client.new_secret()
        count = node.luck.randint(1, 3)
        jobs: list[Job] = []
        for _ in range(TRIES_MAX):
            try:
                jobs = await client.claim(count, operation, node.plan.lease_seconds, queues, name)
                break
            except PenstockError:
                await node.clock.sleep(node.luck.uniform(0.05, 1.0))
                # The same operation again: whatever it got before, it gets now.
        if not jobs:
            await _rest(world, client, queues)
        if len(jobs) > 1 and node.luck.random() < 0.5:
            await asyncio.gather(*(_handle(world, node, client, job) for job in jobs))
        else:
            for job in jobs:
                await _handle(world, node, client, job)


async def _rest(world: World, client: RecordingClient, queues: tuple[str, ...] | None) -> None:
    try:
        await client.backend.wait_ready(client.tenant, queues, None, world.rest_seconds)
    except PenstockError:
        return


async def _handle(world: World, node: Node, client: RecordingClient, job: Job) -> None:
    await _look_at_payload(world, node, client, job)
    luck, clock = node.luck, node.clock
    try:
        match "ok" if world.is_healed and job.type != "poison" else job.type:
            case "poison":
                await _settle(node, lambda: client.nack(job, retry=luck.random() < 0.9))
            case "flaky" if luck.random() < 0.6:
                await _settle(node, lambda: client.nack(job, retry=True))
            case "sleepy" if luck.random() < 0.7:
                until = clock.now() + luck.uniform(0.0, 5.0)
                await _settle(node, lambda: client.snooze(job, until))
            case "returned" if luck.random() < 0.7:
                await _settle(node, lambda: client.release(job))
            case "zombie" if luck.random() < 0.6:
                await clock.sleep(node.plan.lease_seconds + luck.uniform(0.0, 6.0))
                await _ack(node, client, job)
            case "slow":
                await _labour(node, client, job)
                await _ack(node, client, job)
            case _:
                await clock.sleep(luck.uniform(0.0, 0.3))
                await _ack(node, client, job)
    except JobProblem:
        return  # lost or cancelled: somebody else's business now


async def _look_at_payload(world: World, node: Node, client: RecordingClient, job: Job) -> None:
    if job.payload_key is None:
        return
    try:
        await client.backend.fetch(job.payload_key)
    except ObjectNotFound:
        found = await client.queue.get(job.id)
        if found is not None and found.lease == job.lease:
            world.history.surprises.append(f"{node.name}: the payload of {job.id} is gone")
    except PenstockError:
        return


async def _labour(node: Node, client: RecordingClient, job: Job) -> None:
    for step in range(3):
        await node.clock.sleep(node.plan.lease_seconds / 4)
        progress = None if node.luck.random() < 0.5 else step / 3
        beat = partial(client.heartbeat, job, node.plan.lease_seconds, progress)
        await _settle(node, beat)


async def _ack(node: Node, client: RecordingClient, job: Job) -> None:
    assert job.lease is not None
    result: dict[str, Any] = {OddText("fence"): OddNumber(job.lease.fence)}
    if node.luck.random() < 0.2:
        result["huge"] = HUGE
    await _blunder_at_the_end(node, client, job)
    await _settle(node, lambda: client.ack(job, result))


async def _blunder_at_the_end(node: Node, client: RecordingClient, job: Job) -> None:
    """Some bodies first return what nobody could read: that is refused, and the lease stays."""
    luck = random.Random(f"results {job.id} {job.attempt} {node.world.plan.seed}")
    if luck.random() < BAD_RESULTS:
        try:
            await client.queue.ack(job, luck.choice(POISON))
        except InvalidInput:
            return
        node.world.history.surprises.append(f"{node.name}: a bad result of {job.id} was taken")


async def _settle(node: Node, ask: Callable[[], Awaitable[None]]) -> None:
    for _ in range(TRIES_MAX):
        try:
            await ask()
            return
        except JobProblem:
            raise
        except PenstockError:
            await node.clock.sleep(node.luck.uniform(0.05, 1.0))


async def meddle(world: World, node: Node, client: RecordingClient) -> None:
    """An operator with too much time: races with everybody else."""
    queue, luck = client.queue, node.luck
    while not world.is_healed:
        await node.clock.sleep(luck.expovariate(world.plan.meddling))
        known = world.known[client.tenant]
        id = luck.choice(known) if known else "nobody"
        name = luck.choice(world.plan.queues)
        try:
            match luck.randrange(14):
                case 0 | 1:
                    await client.cancel(id)
                case 2 | 3:
                    await client.manage("replay", queue.replay(id), id)
                case 4:
                    await client.manage("archive", queue.archive(id), id)
                case 5:
                    await client.manage("unarchive", queue.unarchive(id), id)
                case 6:
                    await client.manage("pause", queue.pause(name))
                    await node.clock.sleep(luck.uniform(0.0, 2.0))
                    await client.manage("resume", queue.resume(name))
                case 7:
                    await client.manage("expire", queue.expire())
                case 8:
                    await client.manage("history", queue.history(id), id)
                case 9:
                    await client.manage("stats", queue.stats())
                case 10 | 11:
                    await bring_again(world, node, client, id, name)
                case _:
                    await client.get(id)
        except PenstockError:
            continue


async def bring_again(
    world: World, node: Node, client: RecordingClient, id: str, name: str
) -> None:
    """Another job of an id that is known: a new life, if it is dead."""
    if id not in world.known[client.tenant]:
        return
    new, operation = NewJob("ok", {"again": True}, queue=name, id=id), client.new_secret()
    errand = Errand(client.tenant, new, operation, is_call=False)
    for _ in range(TRIES_MAX):
        if await _brought(world, node, client, errand) and node.luck.random() < 0.7:
            return
        await node.clock.sleep(node.luck.uniform(0.05, 1.0))


async def blunder(world: World, node: Node) -> None:
    """A careless caller: passes what nobody could read, and has to be refused each time."""
    # Luck of its own: what it does must not change what all others do.
    luck = random.Random(f"blunders {node.name} {node.boots} {world.plan.seed}")
    while not world.is_healed:
        await node.clock.sleep(luck.expovariate(1.0 / BLUNDER_SECONDS))
        client, id = luck.choice(node.clients), f"blunder-{luck.getrandbits(64)}"
        try:
            await client.enqueue(NewJob("ok", luck.choice(POISON), id=id), id)
        except InvalidInput:
            continue
        except PenstockError as error:
            world.note(f"{node.name} blundered and was told: {error}")


async def follow(world: World, node: Node, client: RecordingClient) -> None:
    """Reads everything that happens to its tenant, and goes on where it was after any trouble."""
    name = f"{node.name}-{client.tenant}"
    following = world.following(name, client.tenant)
    if node.plan.is_consumer:
        await _move(node, client, name, following.reached)
    registered_at, moved = world.loop.time(), 0
    while not world.is_over:
        try:
            async for event in client.queue.events(following.reached or "beginning"):
                if not following.seen and not following.since:
                    following.since = min(event.position, world.beginning()) - 1
                following.seen.append(event)
                if node.plan.is_consumer and len(following.seen) > moved + 10:
                    moved = len(following.seen)
                    await client.queue.move_consumer(name, following.reached)
        except Gap as gap:
            world.note(f"{name} met a gap: {gap}")
            if node.plan.is_consumer and world.loop.time() - registered_at > VACUUM_SECONDS_MAX:
                world.history.surprises.append(f"{name} is registered and met a gap: {gap}")
            following = world.following(name, client.tenant, position_of(gap.floor, 0) - 1)
        except QueueClosed:
            return
        except PenstockError:
            await node.clock.sleep(0.3)


async def _move(node: Node, client: RecordingClient, name: str, reached: int) -> None:
    while True:
        try:
            await client.queue.move_consumer(name, reached)
            return
        except PenstockError:
            await node.clock.sleep(0.3)


async def keep_house(world: World, node: Node) -> None:
    """Sets the queue up, then vacuums now and then."""
    client = node.clients[0]
    while not world.is_ending:
        try:
            if not world.is_configured:
                await client.queue.configure(**world.plan.settings)
                world.is_configured = True
            await node.clock.sleep(node.luck.uniform(0.0, 20.0))
            if world.plan.layout == "tasks":
                await client.manage("repair", client.queue.repair())
            if node.luck.random() < 0.5:
                await client.manage("vacuum", client.queue.vacuum())
        except PenstockError as error:
            world.note(f"{node.name} keeping house: {error}")
            await node.clock.sleep(1.0)
