"""What was let go of completed jobs is read back from the log, each commit once."""

from __future__ import annotations

import pytest

import penstock
from penstock.engines.ledger import memory
from penstock.engines.ledger.log import reader
from penstock.kernel.events import Event
from penstock.runtime.services import Services
from penstock.stores.layers.counting import Counting
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock
from penstock.wire import commit
from tests.engines.stores import checkpointed

JOBS = 50


async def test_a_commit_is_read_once_for_all_the_jobs_that_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "REMEMBERED_EVENTS_MAX", 1)
    store = Counting(MemoryStore())
    async with penstock.open(store=store) as queue:
        await queue.enqueue_many(penstock.NewJob("work", n, id=str(n)) for n in range(JOBS))
        jobs = await queue.claim(JOBS)
        await queue.ack(jobs, results=["x" * 200 for _ in jobs])
        await queue.archive([str(n) for n in range(0, JOBS, 2)])
        await queue.configure(results_bytes_max=0)
        before = store.requests
        found = await queue.get([str(n) for n in range(JOBS)])
        spent = store.requests.since(before)
    assert [job and job.payload for job in found] == list(range(JOBS))
    assert {job and job.result for job in found} == {"x" * 200}
    # The commits of the enqueue, of the archive and of the ack, with a look at the floor each,
    # and one at the tail.
    assert spent.gets <= 2 * 4 + 1


async def test_only_the_events_that_are_asked_for_are_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "REMEMBERED_EVENTS_MAX", 1)
    async with penstock.open(store=MemoryStore()) as queue:
        await queue.enqueue_many(penstock.NewJob("work", n, id=str(n)) for n in range(JOBS))
        await queue.ack(await queue.claim(JOBS))
        await queue.configure(results_bytes_max=0)
        decoded: list[int] = []
        decode_event = commit.decode_event

        def counted(data: bytes | str) -> Event:
            decoded.append(1)
            return decode_event(data)

        monkeypatch.setattr(commit, "decode_event", counted)
        monkeypatch.setattr(reader, "decode_commit", None)
        job = await queue.get("7")
        assert job is not None
        assert job.payload == 7
        assert len(decoded) == 1


ROUNDS = 100
OTHERS = 300


async def test_a_long_history_costs_one_read_per_commit_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many commits are about other jobs."""
    monkeypatch.setattr(reader, "REMEMBERED_EVENTS_MAX", 1)
    store = Counting(MemoryStore())
    async with penstock.open(store=store) as queue:
        await queue.enqueue("work", id="busy", queue="busy")
        for _ in range(ROUNDS):
            await queue.release(await queue.claim(1, queues=["busy"]))
        for number in range(OTHERS):
            await queue.enqueue("work", id=str(number))
        before = store.requests
        history = await queue.history("busy")
        spent = store.requests.since(before)
    names = [event.event for event in history]
    assert names == ["enqueued", *["claimed", "released"] * ROUNDS]
    own_commits = 1 + 2 * ROUNDS
    assert spent.gets <= own_commits + 2, "it should look at the floor and at the tail once each"


async def old_and_new(queue: penstock.Queue) -> None:
    """One job that has completed, then commits enough for its events to go."""
    await queue.configure(log_retention_seconds=3_600, result_ttl_seconds=1e6, results_bytes_max=0)
    await queue.enqueue("work", {"n": 1}, id="old")
    await queue.ack(await queue.claim(1), results=["x" * 500])
    for _ in range(4):
        await queue.enqueue("other")


def require_vacuumed(job: penstock.Job | None) -> None:
    assert job is not None
    for value, what in ((job.payload, "its enqueue"), (job.result, "its completion")):
        assert isinstance(value, penstock.Undecodable)
        assert f"{what} was vacuumed" in value.reason


async def test_values_whose_commits_were_vacuumed_from_the_log_are_said_to_be() -> None:
    clock = FakeClock()
    store = MemoryStore(now=clock.now)
    async with penstock.open(store=store, services=Services(clock=clock)) as queue:
        await old_and_new(queue)
        clock.jump(7_201)
        await checkpointed(store, 6)
        await checkpointed(store, 7)
        assert (await queue.vacuum()).floor > 4
    # Who was there remembers; who comes now has to read.
    async with penstock.open(store=store, services=Services(clock=clock)) as again:
        require_vacuumed(await again.get("old"))


async def test_values_that_have_left_the_ring_in_memory_are_said_to_be_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "RING_EVENTS_MAX", 1)
    async with penstock.open("memory://") as queue:
        await old_and_new(queue)
        require_vacuumed(await queue.get("old"))


async def test_one_object_has_the_values_of_its_jobs_whatever_is_vacuumed() -> None:
    clock = FakeClock()
    store = MemoryStore(now=clock.now)
    async with penstock.open(store=store, layout="single", services=Services(clock=clock)) as queue:
        await old_and_new(queue)
        clock.jump(7_201)
        await queue.vacuum()
    async with penstock.open(store=store, layout="single", services=Services(clock=clock)) as again:
        job = await again.get("old")
        assert job is not None
        assert (job.payload, job.result) == ({"n": 1}, "x" * 500)
