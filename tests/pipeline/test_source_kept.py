"""Reading a store of records whose beginning was vacuumed, without Spark."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

import penstock
from penstock.address import parse
from penstock.engines.ledger.journal import ledger_capabilities
from penstock.errors import NoQueue
from penstock.kernel.events import Event, Paused, commit_of, position_of
from penstock.pipeline.source.chunks import Bounds, Span
from penstock.pipeline.source.kept import BackendSource
from penstock.pipeline.source.opening import opened
from penstock.runtime.services import Services
from penstock.testing.clock import FakeClock

WEEK_SECONDS = 7 * 86_400.0


async def test_it_begins_with_the_first_commit_that_is_left(tmp_path: Path) -> None:
    url, clock = f"sqlite://{tmp_path}/queue.db?fsync=off", FakeClock()
    async with penstock.open(url, services=Services(clock=clock)) as queue:
        await queue.enqueue("work", id="old")
        await clock.advance(WEEK_SECONDS + 1)
        await queue.enqueue("work", id="new")
        assert (await queue.vacuum()).floor == 2
    async with opened(parse(url, {})) as source:
        assert await source.bounds() == Bounds(2, 2)
        [chunk] = [chunk async for chunk in source.chunks(Span(2, 2))]
        assert chunk.events == 1


def test_a_queue_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    async def look() -> None:
        async with opened(parse(f"sqlite://{tmp_path}/queue.db", {})):
            pass

    with pytest.raises(NoQueue, match="there is no queue"):
        asyncio.run(look())
    assert list(tmp_path.iterdir()) == []


class Loose:
    """As much of a backend as a source asks, with events that are in order per job only."""

    capabilities = replace(
        ledger_capabilities("loose", push=False, multi_process=True, durability="strict"),
        events="per_job",
    )

    def __init__(self, events: list[Event]) -> None:
        self._events = events

    async def last_position(self) -> int:
        return self._events[-1].position

    async def events(
        self, tenant: str | None, since: int, *, follow: bool = True
    ) -> AsyncIterator[Event]:
        for event in self._events:
            # What may have been stored late is told again.
            if event.position > since - 10_000_000:
                yield event


async def test_where_order_is_per_job_the_young_are_left_for_later() -> None:
    clock = FakeClock()
    times = [clock.now() - seconds for seconds in (5_000.0, 4_000.0, 700.0, 300.0)]
    positions = [position_of(round(at * 1_000), 0) for at in times]
    events = [
        Paused(position, at, "acme", "mail") for position, at in zip(positions, times, strict=True)
    ]
    source = BackendSource(Loose(events), clock)  # type: ignore[arg-type]  # as much as is asked
    commits = [commit_of(position) for position in positions]
    bounds = await source.bounds()
    assert bounds == Bounds(1, commits[-1])
    assert await source.settled(bounds.head) == commits[-1] - 1
    # Numbers are milliseconds: what counts is how many there are.
    assert await source.up_to_commits(Span(1, bounds.head), 2) == commits[1]
    assert await source.up_to_events(Span(1, bounds.head), 3) == commits[2]
    later = [event async for event in source.events(Span(commits[1] + 1, commits[2]))]
    assert later == [events[2]]
