"""One request of a batch that breaks fails alone; the others are decided without it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec import Raw

import penstock
from penstock.client.queue import Queue
from penstock.engines.requests import BATCH_BYTES_MAX
from penstock.errors import BatchTooLarge
from penstock.kernel.commands import Cancel, Enqueue, Submission
from penstock.kernel.events import Cancelled, commit_of
from penstock.kernel.state import QueueState
from penstock.ports.backend import CALL_BYTES_MAX

URLS: dict[str, Callable[[Path], str]] = {
    "memory": lambda folder: "memory://",
    "log": lambda folder: f"file://{folder}/log",
    "single": lambda folder: f"file://{folder}/single?layout=single",
    "sqlite": lambda folder: f"sqlite:///{folder}/queue.db",
    "tasks": lambda folder: f"file://{folder}/tasks?layout=tasks",
}


@pytest_asyncio.fixture(params=URLS)
async def queue(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Queue]:
    async with penstock.open(URLS[request.param](tmp_path)) as opened:
        yield opened


def impossible(id: Any, **fields: Any) -> Enqueue:
    return Enqueue(
        "default", [Submission("fine", "work", Raw(b"1")), Submission(id, "work", **fields)]
    )


async def outcomes(queue: Queue, bad: Enqueue | Cancel) -> list[Any]:
    backend = queue._backend
    calls = [queue.enqueue("work", 0), backend.execute(bad), queue.enqueue("work", 1)]
    return await asyncio.gather(*calls, return_exceptions=True)


async def test_a_command_that_breaks_while_it_is_decided_fails_alone(queue: Queue) -> None:
    if not queue.capabilities.atomic_batch:
        pytest.skip("every item is a turn of its own here")
    first, bad, last = await outcomes(queue, impossible(["no", "id"], payload=Raw(b"1")))
    assert isinstance(bad, TypeError)
    assert (first.status, last.status) == ("queued", "queued")
    assert [job.payload for job in await queue.claim(9)] == [0, 1]


async def test_a_command_that_can_not_be_written_fails_alone(queue: Queue) -> None:
    if queue.capabilities.durability == "none" or not queue.capabilities.atomic_batch:
        pytest.skip("nothing is written, or not together")
    first, bad, last = await outcomes(queue, impossible("\ud800", payload=Raw(b"1")))
    assert isinstance(bad, Exception)
    assert (first.status, last.status) == ("queued", "queued")
    assert [job.payload for job in await queue.claim(9)] == [0, 1]


async def test_an_item_that_breaks_leaves_the_others_where_each_is_a_turn(tmp_path: Path) -> None:
    async with penstock.open(URLS["tasks"](tmp_path)) as queue:
        await queue.enqueue("work", id="one")
        with pytest.raises((TypeError, AttributeError)):
            await queue._backend.execute(Cancel("default", ["one", 7]))  # type: ignore[list-item]
        job = await queue.get("one")
        assert job is not None
        assert job.state == "cancelled"


async def test_what_breaks_in_the_middle_is_taken_back_as_a_whole(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not queue.capabilities.atomic_batch:
        pytest.skip("every item is a turn of its own here")
    ids = [(await queue.enqueue("work", id=id)).id for id in "abc"]
    apply = QueueState.apply

    def break_at_b(state: QueueState, event: Any) -> None:
        if isinstance(event, Cancelled) and event.id == "b":
            raise ZeroDivisionError
        apply(state, event)

    with monkeypatch.context() as patch:
        patch.setattr(QueueState, "apply", break_at_b)
        first, bad, last = await outcomes(queue, Cancel("default", ids))
    assert isinstance(bad, ZeroDivisionError)
    assert (first.status, last.status) == ("queued", "queued")
    assert [job.id async for job in queue.jobs(state="cancelled")] == []
    assert len(await queue.claim(9)) == 5


async def test_a_call_that_no_commit_can_take_is_refused_before_anything_is_stored(
    queue: Queue,
) -> None:
    megabyte = Raw(b'"' + b"x" * 1024 * 1024 + b'"')
    jobs = [Submission(f"{n}", "work", megabyte) for n in range(CALL_BYTES_MAX // 1024**2 + 1)]
    with pytest.raises(BatchTooLarge, match="several calls"):
        await queue._backend.execute(Enqueue("default", jobs))
    with pytest.raises(BatchTooLarge, match="at most 100,000"):
        await queue.cancel(["x"] * 100_001)
    assert [job async for job in queue.jobs()] == []


async def test_a_group_is_split_between_calls_and_never_inside_one(tmp_path: Path) -> None:
    async with penstock.open(URLS["log"](tmp_path)) as queue:
        half = Raw(b'"' + b"x" * (BATCH_BYTES_MAX // 4) + b'"')
        calls = [
            Enqueue("default", [Submission(f"{call}-{n}", "work", half) for n in range(3)])
            for call in range(4)
        ]
        await asyncio.gather(*map(queue._backend.execute, calls))
        events = [event async for event in queue.events("beginning", follow=False)]
    by_call: dict[str, set[int]] = {}
    for event in events:
        by_call.setdefault(event.id[0], set()).add(commit_of(event.position))  # type: ignore[union-attr]
    assert all(len(commits) == 1 for commits in by_call.values())
    assert len(set.union(*by_call.values())) == len(calls)


async def test_no_commit_has_more_events_than_can_be_numbered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.engines.requests.EVENTS_PER_COMMIT", 10)
    async with penstock.open("memory://") as queue:
        jobs = [Submission(f"{n}", "work", Raw(b"1")) for n in range(11)]
        with pytest.raises(BatchTooLarge):
            await queue._backend.execute(Enqueue("default", jobs))
        assert await queue._backend.execute(Enqueue("default", jobs[:10]))
