"""Vacuum of records: what is old and not needed goes, and a reader below the floor is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

import penstock
from penstock import Queue
from penstock.errors import Gap, InvalidJob
from penstock.kernel.commands import Enqueue
from penstock.runtime.services import Services
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.steps import completed, found, ids, story, take
from penstock.testing.factories import a_submission

DAY_SECONDS = 86_400.0
WEEK_SECONDS = 7 * DAY_SECONDS


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def queue(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Queue]:
    url, services = f"sqlite://{tmp_path}/queue.db?fsync=off", Services(clock=clock)
    async with penstock.open(url, services=services, offload=True, payload_bytes_max=100) as queue:
        yield queue


async def test_what_is_younger_than_the_retention_stays(queue: Queue, clock: FakeClock) -> None:
    await completed(queue)
    await clock.advance(WEEK_SECONDS - 1)
    report = await queue.vacuum()
    assert (report.log_objects, report.floor) == (0, 1)
    assert len(await take(queue, 3)) == 3


async def test_events_that_are_older_go_and_whoever_asks_for_them_is_told(
    queue: Queue, clock: FakeClock
) -> None:
    await completed(queue, id="old")
    [first, *_] = await take(queue, 3)
    await clock.advance(WEEK_SECONDS + 1)
    await queue.enqueue("work", id="new")
    report = await queue.vacuum()
    assert (report.log_objects, report.floor) == (3, 4)
    with pytest.raises(Gap):
        await take(queue, 1, since=first.position)
    assert [event.event for event in await take(queue, 1)] == ["enqueued"]
    assert await story(queue, "old") == []
    assert await story(queue, "new") == ["enqueued"]


async def test_a_job_that_lives_stays_whatever_its_events_do(
    queue: Queue, clock: FakeClock
) -> None:
    await queue.enqueue("work", {"n": 1}, id="patient", delay_seconds=10 * WEEK_SECONDS)
    await clock.advance(2 * WEEK_SECONDS)
    await queue.enqueue("work")
    assert (await queue.vacuum()).log_objects == 1
    assert (await found(queue, "patient")).payload == {"n": 1}


async def test_a_consumer_is_waited_for(queue: Queue, clock: FakeClock) -> None:
    await completed(queue)
    [_, second, _] = await take(queue, 3)
    await queue.move_consumer("tables", second.position)
    await clock.advance(WEEK_SECONDS + 1)
    await queue.enqueue("work")
    assert (await queue.vacuum()).log_objects == 1
    assert [event.position for event in await take(queue, 1, since=second.position - 1)] == [
        second.position
    ]
    await clock.advance(30 * DAY_SECONDS)
    assert (await queue.vacuum()).floor > 2, "one that is silent for so long is not"


async def test_large_values_go_after_the_jobs_that_name_them(
    queue: Queue, clock: FakeClock
) -> None:
    large = "x" * 200
    await completed(queue, large, id="done", payload=large)
    await queue.enqueue("work", large, id="waits", delay_seconds=10 * WEEK_SECONDS)
    orphan = await queue._backend.keep("nobody", b"y" * 200)
    await clock.advance(WEEK_SECONDS + 10)
    await queue.enqueue("work", id="lets the done one go")
    assert (await queue.vacuum()).data_objects == 1, "only what no job ever named"
    naming = replace(a_submission("nobody"), payload_key=orphan)
    [outcome] = await queue._backend.execute(Enqueue("default", [naming]))
    assert isinstance(outcome, InvalidJob), "what may be gone can't be published any more"
    await clock.advance(WEEK_SECONDS + 10)
    await queue.enqueue("work", id="another")
    assert (await queue.vacuum()).data_objects == 2, "the payload and the result of the done one"
    assert (await found(queue, "waits")).payload == large
    assert "done" not in await ids(queue)
