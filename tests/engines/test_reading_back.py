"""What was let go of completed jobs is read back from the log, each commit once."""

from __future__ import annotations

import pytest

import penstock
from penstock.engines.ledger.log import reader
from penstock.kernel.events import Event
from penstock.stores.layers.counting import Counting
from penstock.stores.memory import MemoryStore
from penstock.wire import commit

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
