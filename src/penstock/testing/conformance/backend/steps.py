"""What tests do with a queue over and over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final, TypeVar

from penstock.client.queue import Queue
from penstock.kernel.events import Event, Paused
from penstock.kernel.job import Job
from penstock.kernel.retry import RetryPolicy
from penstock.testing.clock import turns

Result = TypeVar("Result")

AT_ONCE: Final = RetryPolicy(initial_seconds=0, max_seconds=0)
EXACT: Final = RetryPolicy(jitter=0)
HANG_SECONDS: Final = 30.0
"""Real time after which a wait that should have ended fails its test."""


def nonzero(totals: dict[str, int]) -> dict[str, int]:
    """The states that jobs are in."""
    return {state: count for state, count in totals.items() if count}


async def claim_one(queue: Queue, /, **options: Any) -> Job:
    jobs: list[Job] = await queue.claim(1, **options)
    assert len(jobs) == 1, "there was nothing to claim"
    return jobs[0]


async def claimed(queue: Queue, /, type: str = "work", **options: Any) -> Job:
    """A new job, claimed."""
    await queue.enqueue(type, **options)
    return await claim_one(queue, types=[type])


async def completed(queue: Queue, /, result: Any = None, **options: Any) -> str:
    """The id of a new job that was completed."""
    job = await claimed(queue, **options)
    await queue.ack(job, result)
    return job.id


async def failed(queue: Queue, /, error: str = "boom", **options: Any) -> str:
    """The id of a new job that failed for good."""
    job = await claimed(queue, **options)
    await queue.nack(job, error, retry=False)
    return job.id


async def found(queue: Queue, id: str) -> Job:
    job = await queue.get(id)
    assert job is not None, f"{id} is unknown"
    return job


async def ids(queue: Queue, /, **filter: Any) -> list[str]:
    return [job.id async for job in queue.jobs(**filter)]


async def story(queue: Queue, id: str) -> list[str]:
    """The names of a job's transitions."""
    return [event.event for event in await queue.history(id)]


async def take(queue: Queue, count: int, since: str | int = "beginning") -> list[Event]:
    """The next so many events."""
    events: list[Event] = []
    async with asyncio.timeout(HANG_SECONDS), aclosing(_stream(queue, since)) as stream:
        async for event in stream:
            if not is_told_again(queue, event, since):
                events.append(event)
            if len(events) == count:
                break
    return events


def is_told_again(queue: Queue, event: Event, since: str | int) -> bool:
    """Where events are ordered per job only, those just before a position may come once more."""
    return (
        queue.capabilities.events == "per_job"
        and isinstance(since, int)
        and event.position <= since
    )


async def all_events(queue: Queue) -> list[Event]:
    """Every event until now, found by the one of a pause that comes after them."""
    await queue.resume("the end")
    await queue.pause("the end")
    events: list[Event] = []
    async with asyncio.timeout(HANG_SECONDS), aclosing(_stream(queue, "beginning")) as stream:
        async for event in stream:
            if isinstance(event, Paused) and event.queue == "the end":
                break
            events.append(event)
    return events


@asynccontextmanager
async def meanwhile(work: Coroutine[Any, Any, Result]) -> AsyncIterator[asyncio.Task[Result]]:
    """Runs something beside the test; what came of it is there when the block has ended."""
    async with asyncio.timeout(HANG_SECONDS), asyncio.TaskGroup() as group:
        task = group.create_task(work)
        await turns()
        yield task


def names(events: Sequence[Event]) -> list[str]:
    return [event.event for event in events]


def _stream(queue: Queue, since: str | int) -> Any:
    # Ours are generators, which is more than the iterator that the type promises.
    return queue.events(since)
