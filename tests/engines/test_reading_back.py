"""What was let go of completed jobs is read back from the log, each commit once."""

from __future__ import annotations

import pytest

import penstock
from penstock.engines.ledger.log import reader
from penstock.stores.layers.counting import Counting
from penstock.stores.memory import MemoryStore

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
