"""Reading a store of records whose beginning was vacuumed, without Spark."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import penstock
from penstock.address import parse
from penstock.errors import NoQueue
from penstock.pipeline.source.chunks import Bounds, Span
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
