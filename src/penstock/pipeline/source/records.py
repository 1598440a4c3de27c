"""Reading a store of records: its commits are the bytes of log objects, and are read by number.

The store is asked directly. Nothing is written, and nothing but the commits is read, so many tasks
can read as many ranges at once. Numbers may be skipped; none up to `Head.readable` comes later.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from math import inf
from typing import Final

from penstock.errors import Gap
from penstock.kernel.events import position_of
from penstock.pipeline.source.chunks import Bounds, Chunk, Span
from penstock.pipeline.source.packing import split
from penstock.pipeline.source.searching import first_at, within_events
from penstock.ports.backend import Capabilities
from penstock.ports.records import RecordStore
from penstock.wire.commit import decode_lines

COMMITS_PER_READ: Final = 64
COMMITS_PER_TASK: Final = 1_000
"""Fewer than this are not worth a task of their own."""
OVERLAP_SECONDS: Final = 300.0
"""Turns at once may be numbered in another order than that of their times, by less than this."""


class RecordsSource:
    """The commits of one queue, in a store that whoever opened it closes."""

    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self._began = 0
        """The first commit that there is, as far as that was looked for: the first number of a
        server may be a high one."""

    @property
    def capabilities(self) -> Capabilities:
        return self._store.capabilities

    async def floor(self) -> int:
        return await self._store.first_commit()

    async def bounds(self, after: int = 0) -> Bounds:
        head, floor = (await self._store.head()).readable, await self.floor()
        for number, _ in await self._store.commits(floor - 1, 1):
            self._began = number
        return Bounds(floor, head)

    def partitions(self, span: Span, count: int | None) -> list[Span]:
        if not span:
            return []
        # Cut where commits are; what comes before is of the first part.
        began = min(max(span.first, self._began), span.last)
        worth = -(-(span.last - began + 1) // COMMITS_PER_TASK)
        cut = split(Span(began, span.last), count or min(os.cpu_count() or 1, max(worth, 1)))
        return [Span(span.first, cut[0].last), *cut[1:]]

    async def narrowed(self, span: Span, since: float | None, before: float | None) -> Span:
        """The commits of the span that may be within a time: a few more at each end."""
        first, last = span.first, span.last
        if since is not None:
            first = await first_at(since - OVERLAP_SECONDS, span, self._time_from)
        if before is not None:
            last = await first_at(before + OVERLAP_SECONDS, span, self._time_from) - 1
        return Span(first, last)

    async def settled(self, head: int) -> int:
        """Up to where no commit can come any more below one that is there: all of them."""
        return head

    async def up_to_commits(self, span: Span, commits_max: int) -> int:
        # Numbers jump where a server was restarted, so that a stretch may have none.
        first = next((number for number, _ in await self._store.commits(span.first - 1, 1)), 0)
        return min(span.last, max(span.first, first) + commits_max - 1)

    async def up_to_events(self, span: Span, events_max: int) -> int:
        return await within_events(self.chunks(span), span, events_max)

    async def chunks(self, span: Span, *, backwards: bool = False) -> AsyncGenerator[Chunk]:
        """One per commit, in order or, `backwards`, from the newest on."""
        if backwards:
            last = span.last
            while last >= span.first:
                first = max(span.first, last - COMMITS_PER_READ + 1)
                page = await self._read(first, last)
                for chunk in reversed(page):
                    yield chunk
                last = first - 1 if page else await self._last_before(first, span.first)
            return
        first = span.first
        while page := await self._read(first, span.last):
            for chunk in page:
                yield chunk
            first = page[-1].last + 1

    async def _read(self, first: int, last: int) -> list[Chunk]:
        page = await self._store.commits(first - 1, COMMITS_PER_READ)
        # Afterwards: where vacuum was faster, the page begins later than it should.
        floor = await self.floor()
        if first < floor:
            raise Gap(position_of(first, 0), floor)
        return [_chunk(number, data) for number, data in page if number <= last]

    async def _last_before(self, commit: int, first: int) -> int:
        """The last commit below a number; where there is none, one below the first."""
        low, high = first - 1, commit - 1
        while low < high:
            middle = (low + high) // 2
            page = await self._store.commits(middle, 1)
            if page and page[0][0] < commit:
                low = page[0][0]
            else:
                high = middle
        return low

    async def _time_from(self, commit: int) -> float:
        """When the first commit with this number or a higher one was."""
        for number, data in await self._store.commits(commit - 1, 1):
            return decode_lines(f"commit {number}", data)[0].at
        return inf


def _chunk(number: int, data: bytes) -> Chunk:
    name = f"commit {number}"
    header, lines = decode_lines(name, data)
    return Chunk(name, lines, header.events, number, header)
