"""What doctor makes of an id that has had several lives."""

from __future__ import annotations

import pytest

import penstock
from penstock.insights.stored_single import misfit
from penstock.kernel.job import Job


@pytest.mark.parametrize("id", ["mine", None])
async def test_a_later_life_is_what_its_events_make_of_it(id: str | None) -> None:
    async with penstock.open("memory://") as queue:
        first = await queue.enqueue("work", id=id)
        for _ in range(10):
            await queue.cancel(first.id)
            await queue.enqueue("work", id=first.id)
        [job] = await queue._backend.get(queue.tenant, [first.id])
        assert isinstance(job, Job)
        events = await queue.history(first.id)
        assert misfit(job, events) is None
        job.operations = (*job.operations[:-1], "another")
        assert misfit(job, events) is not None
