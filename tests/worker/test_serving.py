"""Workers claim only what they know; what they do not know waits for somebody who does."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType
from typing import Any

import pytest

import penstock
from penstock.errors import InvalidInput, StoreRefused, UnknownType
from penstock.kernel.job import State
from penstock.ports.store import PutMode, Written
from penstock.runtime.services import Services
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock, turn, turns
from penstock.testing.kit import Kit, in_memory
from penstock.worker.options import WorkerOptions
from penstock.worker.worker import Worker
from tests.worker.working import HANG_SECONDS, at_work, until


async def handled(kit: Kit) -> list[str]:
    return [job.type async for job in kit.queue.jobs(state="completed")]


def declare(app: penstock.App, *names: str) -> None:
    async def handler() -> None: ...

    for name in names:
        app.task(name=name)(handler)


async def burst(kit: Kit, **options: object) -> Worker:
    async with at_work(kit, burst=True, **options) as watched:
        await watched.task
    return watched.worker


async def test_jobs_of_other_types_wait_for_a_worker_that_knows_them(
    app: penstock.App, kit: Kit
) -> None:
    declare(app, "old")
    for type in ("new", "old", "new"):
        await kit.queue.enqueue(type)
    worker = await burst(kit)
    assert await handled(kit) == ["old"]
    assert worker.counters.claimed == 1
    declare(app, "new")
    await burst(kit)
    assert await handled(kit) == ["new", "old", "new"]


async def test_a_worker_that_waits_is_woken_by_what_it_serves_alone(
    app: penstock.App, kit: Kit
) -> None:
    declare(app, "old")
    async with at_work(kit) as worker:
        await kit.queue.enqueue("new")
        await kit.queue.enqueue("old")
        await until(lambda: worker.counters.completed == 1)
        assert [job.type for job in await kit.jobs(state=State.PENDING)] == ["new"]


async def test_types_narrow_what_a_worker_claims(app: penstock.App, kit: Kit) -> None:
    declare(app, "a", "b")
    await kit.queue.enqueue("a")
    await kit.queue.enqueue("b")
    options = WorkerOptions(burst=True, monitor=False)
    await Worker(app, options, Services(clock=kit.clock), types=["b"]).run()
    assert await handled(kit) == ["b"]


async def test_types_that_the_app_does_not_have_are_refused(app: penstock.App, kit: Kit) -> None:
    declare(app, "resize")
    for told in ({"types": ["rezise"]}, {"options": WorkerOptions(types=("resize", "rezise"))}):
        with pytest.raises(UnknownType, match="no task 'rezise'; it has resize"):
            Worker(app, **told)
    Worker(app, WorkerOptions(types=("rezise",), unknown="fail"))
    for wrong in ({"types": ()}, {"types": "resize"}, {"unknown": "ignore"}):
        with pytest.raises(InvalidInput):
            WorkerOptions(**wrong)


async def test_the_order_is_global_over_what_is_served(app: penstock.App, kit: Kit) -> None:
    ran: list[str] = []

    def noting(name: str) -> None:
        async def handler() -> None:
            ran.append(name)

        app.task(name=name)(handler)

    for name in ("a", "b"):
        noting(name)
    for type, priority in (("a", 3), ("other", 0), ("b", 2), ("a", 1)):
        await kit.queue.enqueue(type, priority=priority)
    await burst(kit, concurrency=1)
    assert ran == ["a", "b", "a"]


async def test_a_worker_without_tasks_refuses_to_start_and_says_what_it_imported(
    app: penstock.App, kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("empty_tasks")
    module.app, module.__file__ = app, "/code/empty_tasks.py"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "empty_tasks", module)
    await kit.queue.enqueue("work")
    with pytest.raises(InvalidInput, match=r"no tasks.*empty_tasks \(/code/empty_tasks.py\)"):
        await burst(kit)
    assert [job.attempt for job in await kit.jobs()] == [0]


async def test_a_worker_says_which_types_it_serves(app: penstock.App, kit: Kit) -> None:
    declare(app, "b", "a")
    async with at_work(kit, queues=("q",)):
        await until_registered(kit)
        (record,) = await kit.queue.workers()
        assert record.types == ["a", "b"]
        assert [record.serves("q", "a"), record.serves("q", "c"), record.serves("r", "a")] == [
            True, False, False,
        ]  # fmt: skip


async def until_registered(kit: Kit) -> None:
    async with asyncio.timeout(HANG_SECONDS):
        while not await kit.queue.workers():
            await turn()


async def test_draining_in_a_test_raises_for_what_nobody_would_run(app: penstock.App) -> None:
    declare(app, "known")
    async with in_memory(app, FakeClock()) as kit:
        await kit.queue.enqueue("known")
        await kit.queue.enqueue("unknown")
        with pytest.raises(UnknownType) as caught:
            await kit.drain()
        assert caught.value.type == "unknown"
        assert await handled(kit) == ["known"]
        await kit.queue.cancel([job.id for job in await kit.jobs("unknown")])
        await kit.queue.enqueue("unknown", delay_seconds=60)
        await kit.drain()
        with pytest.raises(UnknownType):
            await kit.drain(jump=True)


async def test_what_others_are_to_serve_costs_a_waiting_worker_nothing(
    app: penstock.App, kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(app, "old")
    await kit.queue.enqueue("new")
    await kit.queue.enqueue("new", delay_seconds=10)
    claims: list[object] = []
    claim = kit.queue.claim

    async def counted(*arguments: Any, **options: Any) -> Any:
        claims.append(arguments)
        return await claim(*arguments, **options)

    monkeypatch.setattr(kit.queue, "claim", counted)
    await kit.clock.advance(11)
    async with at_work(kit):
        await turns(1_000)
        # It has looked, and waits for something that it serves.
        assert 1 <= len(claims) <= 2


async def test_a_result_that_the_store_refuses_fails_its_job_and_the_others_complete() -> None:
    clock = FakeClock()
    store = Refusing(now=clock.now)
    app = penstock.App(store=store, offload=True, services=Services(clock=clock))

    @app.task(name="work")
    async def work(size: int) -> str:
        return "x" * size

    async with app:
        queue = await app.queue()
        for size in (1, 300_000, 2):
            await queue.enqueue("work", {"size": size})
        options = WorkerOptions(burst=True, monitor=False)
        await Worker(app, options, Services(clock=clock)).run()
        first, large, last = [job async for job in queue.jobs()]
        assert (first.state, last.state) == (State.COMPLETED, State.COMPLETED)
        assert (large.state, large.errors[0].kind) == (State.FAILED, "result")
        assert "EntityTooLarge" in large.errors[0].message


class Refusing(MemoryStore):
    """Takes nothing that is kept beside the queue."""

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        if key.startswith("data/"):
            raise StoreRefused(self.name, key, "400 EntityTooLarge")
        return await super().put(key, data, mode)


async def test_a_worker_passes_over_what_it_cannot_decode(app: penstock.App, kit: Kit) -> None:
    declare(app, "old")
    inner = await kit.queue.enqueue("old", b"bytes that no task takes", codec="raw")
    backend = kit.queue._backend
    stored = await backend.get("default", [inner.id])
    assert stored[0] is not None
    stored[0].codec = "nosuch"
    await kit.queue.enqueue("old")
    worker = await burst(kit)
    assert worker.counters.completed == 1
    job = await kit.queue.get(inner.id)
    assert job is not None
    assert (job.failures, job.errors[0].kind) == (1, "undecodable")
