"""Reading a store of records whose beginning was vacuumed, without Spark."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from pyspark.sql.streaming.datasource import ReadAllAvailable

import penstock
from penstock.address import parse
from penstock.engines.ledger.journal import ledger_capabilities
from penstock.errors import NoQueue, StoredLate
from penstock.kernel.events import Event, Paused, position_of
from penstock.pipeline.schemas import EVENTS
from penstock.pipeline.source.chunks import Bounds, Span
from penstock.pipeline.source.kept import BackendSource
from penstock.pipeline.source.opening import opened
from penstock.pipeline.source.options import parse_options
from penstock.pipeline.source.stream import PenstockStreamReader
from penstock.runtime.services import Services
from penstock.testing.clock import FakeClock
from tests.pipeline.latecomers import Latecomer

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

    def __init__(self, clock: FakeClock, events: list[Event]) -> None:
        self._clock = clock
        self._events = events

    async def last_position(self) -> int:
        return position_of(round(self._clock.now() * 1_000), 0)

    async def events(
        self, tenant: str | None, since: int, *, follow: bool = True
    ) -> AsyncIterator[Event]:
        for event in self._events:
            # What may have been stored late is told again.
            if event.position > since - 10_000_000:
                yield event


async def test_where_order_is_per_job_the_young_are_left_for_later() -> None:
    clock = FakeClock()
    now = round(clock.now() * 1_000)
    commits = [now - 1_000 * seconds for seconds in (5_000, 4_000, 700, 300)]
    events: list[Event] = [
        Paused(position_of(commit, 0), commit / 1_000, "acme", "mail") for commit in commits
    ]
    source = BackendSource(Loose(clock, events))  # type: ignore[arg-type]  # as much as is asked
    bounds = await source.bounds()
    assert bounds == Bounds(1, now)
    assert await source.settled(now) == now - 600_000
    # Numbers are milliseconds: what counts is how many there are.
    assert await source.up_to_commits(Span(1, bounds.head), 2) == commits[1]
    assert await source.up_to_events(Span(1, bounds.head), 3) == commits[2]
    later = [event async for event in source.events(Span(commits[1] + 1, commits[2]))]
    assert later == [events[2]]


async def test_a_stream_that_has_passed_the_place_of_a_late_event_is_told(tmp_path: Path) -> None:
    late = Latecomer(tmp_path / "queue")
    await late.begin()
    await late.enqueue("in time")
    reader = PenstockStreamReader(parse_options({"url": late.url}), EVENTS)

    async def latest(start: dict[str, int]) -> dict[str, int]:
        return await asyncio.to_thread(reader.latestOffset, start, ReadAllAvailable())

    taken = await latest({"commit": 0})
    assert await latest(taken) == taken, "nothing is new"
    late.arrive()
    with pytest.raises(StoredLate, match="job 'late' of tenant 'default'"):
        await latest(taken)
    assert (await latest({"commit": 0}))["commit"] == taken["commit"], "a new one has it in time"
