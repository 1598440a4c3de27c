"""Who is there: workers that show themselves, and the one monitor that keeps house."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import penstock
from penstock.engines.names import leader_key
from penstock.errors import InvalidInput, StoreUnavailable
from penstock.kernel.job import State
from penstock.maintenance.monitor import ROUNDS_PER_LEADERSHIP, Monitor, MonitorOptions
from penstock.ports.backend import VacuumReport, WorkerRecord
from penstock.ports.store import Overwrite
from penstock.runtime.services import Services
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock, turn
from penstock.testing.kit import Kit
from tests.worker.working import HANG_SECONDS, at_work, until

LEADERSHIP_SECONDS = ROUNDS_PER_LEADERSHIP * MonitorOptions().round_seconds
RECORD = WorkerRecord("w9", "host", 7, "default", None, 64, 0.0, 0.0, "running", [], {})


def monitor(kit: Kit, name: str) -> Monitor:
    return Monitor(kit.queue, name, Services(clock=kit.clock))


async def test_a_worker_shows_itself_and_what_it_runs(app: penstock.App, kit: Kit) -> None:
    @app.task
    async def for_ever() -> None:
        await asyncio.Event().wait()

    receipt = await for_ever.enqueue()
    async with at_work(kit, name="w1", queues=("default",), concurrency=3) as worker:
        await worker.until_running(1)
        await kit.clock.advance(10)
        [record] = await kit.queue.workers()
        assert (record.id, record.pid, record.tenant) == ("w1", os.getpid(), "default")
        assert (record.queues, record.concurrency) == (["default"], 3)
        assert (record.state, record.running) == ("running", [receipt.id])
        assert (record.counters["claimed"], record.busy, record.shards) == (1, 1, None)
        assert record.seen_at == pytest.approx(kit.clock.now(), abs=1)
    assert await kit.queue.workers() == []


async def test_a_worker_that_stops_gives_up_the_lead_of_the_monitors(
    app: penstock.App, kit: Kit
) -> None:
    @app.task
    async def work() -> None: ...

    async with at_work(kit, name="w1", monitor=True):
        await kit.clock.advance(1)
        assert not await monitor(kit, "m2").round()
    assert await monitor(kit, "m2").round(), "nobody has to wait until the old lead lapses"


async def test_a_monitor_that_can_not_say_farewell_ends_all_the_same(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = monitor(kit, "m1")
    assert await one.round()

    async def refuse(*_: object) -> bool:
        raise StoreUnavailable("memory", "leader", "away")

    monkeypatch.setattr(kit.queue, "elect", refuse)
    await one.resign()


async def test_a_worker_that_drains_says_so(app: penstock.App, kit: Kit) -> None:
    gate = asyncio.Event()

    @app.task
    async def wait() -> None:
        await gate.wait()

    await wait.enqueue()
    async with at_work(kit, grace_seconds=600) as worker:
        await worker.until_running(1)
        worker.worker.stop()
        async with asyncio.timeout(HANG_SECONDS):
            # At once: the clock stands still.
            while (await kit.queue.workers())[0].state != "draining":
                await turn()
        gate.set()
        await worker.task


async def test_workers_of_all_tenants_are_shown() -> None:
    store, shown = MemoryStore(), list[list[str]]()
    first = penstock.App(store=store, tenant="a")
    second = penstock.App(store=store, tenant="b")
    async with first, second:
        for app in (first, second):
            queue = await app.queue()
            await queue.register(replace(RECORD, id=f"of-{queue.tenant}", tenant=queue.tenant))
        shown = [
            [each.id for each in await (await app.queue()).workers()] for app in (first, second)
        ]
    assert shown == [["of-a", "of-b"]] * 2


async def test_of_many_monitors_one_leads_until_it_is_gone(kit: Kit) -> None:
    monitors = [monitor(kit, name) for name in ("m1", "m2", "m3")]
    assert [await each.round() for each in monitors] == [True, False, False]
    await kit.clock.advance(LEADERSHIP_SECONDS - 1)
    assert [await each.round() for each in monitors] == [True, False, False]
    await kit.clock.advance(LEADERSHIP_SECONDS + 1)
    assert [await each.round() for each in monitors[1:]] == [True, False]
    assert not await monitors[0].round()


async def test_one_of_many_workers_keeps_house(app: penstock.App, kit: Kit) -> None:
    @app.task
    async def work() -> None: ...

    await kit.queue.enqueue("elsewhere", queue="unserved")
    [job] = await kit.queue.claim(1, queues=["unserved"], lease_seconds=30)
    async with (
        at_work(kit, monitor=True, name="w1", queues=("default",)),
        at_work(kit, monitor=True, name="w2", queues=("default",)),
    ):
        await kit.clock.advance(60)
        again = await kit.queue.get(job.id)
    assert again is not None
    assert (again.state, again.failures) == (State.PENDING, 1)


async def test_dead_workers_leave_the_list_after_a_set_time(kit: Kit) -> None:
    now = kit.clock.now()
    await kit.queue.register(replace(RECORD, id="dead", seen_at=now - 3_700))
    await kit.queue.register(replace(RECORD, id="silent", seen_at=now - 3_500))
    await monitor(kit, "m1").round()
    assert [record.id for record in await kit.queue.workers()] == ["silent"]
    options = MonitorOptions(forget_seconds=60)
    await Monitor(kit.queue, "m1", Services(clock=kit.clock), options).round()
    assert await kit.queue.workers() == []


async def test_a_dead_worker_is_said_once(kit: Kit, caplog: pytest.LogCaptureFixture) -> None:
    leader = monitor(kit, "m1")
    await kit.queue.register(replace(RECORD, id="dead", seen_at=kit.clock.now() - 40))
    await kit.queue.register(replace(RECORD, id="alive", seen_at=kit.clock.now()))
    for _ in range(3):
        await leader.round()
    [said] = [one.getMessage() for one in caplog.records if "has not been seen" in one.getMessage()]
    assert said.startswith("worker dead has not been seen for 40 s")


@pytest.mark.parametrize("seconds", [0, -1, "often"])
def test_a_monitor_needs_intervals_that_can_be(seconds: Any) -> None:
    with pytest.raises(InvalidInput, match="round_seconds"):
        MonitorOptions(round_seconds=seconds)


async def test_the_leader_vacuums_once_an_hour(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    vacuumed: list[float] = []

    async def vacuum() -> VacuumReport:
        vacuumed.append(kit.clock.now())
        return VacuumReport()

    monkeypatch.setattr(kit.queue, "vacuum", vacuum)
    leader = monitor(kit, "m1")
    for _ in range(3 * 240):
        await leader.round()
        kit.clock.jump(15)
    assert len(vacuumed) == 3


async def test_trouble_with_one_duty_leaves_the_others(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> int:
        raise StoreUnavailable("store", "", "gone")

    monkeypatch.setattr(kit.queue, "expire", fail)
    await kit.queue.register(replace(RECORD, id="dead"))
    assert await monitor(kit, "m1").round()
    assert await kit.queue.workers() == []
    assert "expiry failed and is tried again" in caplog.text


async def test_an_election_that_fails_is_no_leadership(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*arguments: object) -> bool:
        raise StoreUnavailable("store", "", "gone")

    monkeypatch.setattr(kit.queue, "elect", fail)
    assert not await monitor(kit, "m1").round()


async def test_a_leadership_that_cannot_be_read_is_vacant(clock: FakeClock) -> None:
    store = MemoryStore(now=clock.now)
    async with penstock.open(store=store, services=Services(clock=clock)) as queue:
        await store.put(leader_key("monitor"), b"nonsense", Overwrite())
        assert await queue.elect("monitor", "m1", 60)
        assert not await queue.elect("monitor", "m2", 60)


async def test_a_worker_without_a_name_is_named_after_its_host_and_process(
    app: penstock.App,
) -> None:
    assert penstock.Worker(app).name.endswith(f"-{os.getpid()}")


async def test_a_monitor_goes_round_and_round(kit: Kit) -> None:
    running = asyncio.ensure_future(monitor(kit, "m1").run())
    await kit.clock.advance(1)
    [job_id] = [(await kit.queue.enqueue("work")).id]
    await kit.queue.claim(1, lease_seconds=1)
    await kit.clock.advance(30)
    job = await kit.queue.get(job_id)
    running.cancel()
    await until(running.done)
    assert job is not None
    assert job.state is State.PENDING


async def test_a_worker_shows_the_shards_that_it_claims_from(tmp_path: Path) -> None:
    app = penstock.App(f"{tmp_path.as_uri()}?layout=tasks&shards=0-7")

    @app.task
    async def work() -> None: ...

    async with app, penstock.Worker(app, penstock.WorkerOptions(monitor=False)):
        queue = await app.queue()
        async with asyncio.timeout(HANG_SECONDS):
            while not (workers := await queue.workers()):
                await turn()
    assert workers[0].shards == "01234567"
