"""Reading a queue whose events are not commits of their own: its backend is asked for them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import msgspec
from msgspec.structs import replace

from penstock.errors import Gap
from penstock.kernel.events import Event, commit_of, position_of
from penstock.pipeline.source.chunks import Bounds, Chunk, Span
from penstock.pipeline.source.packing import split
from penstock.pipeline.source.searching import within_events
from penstock.ports.backend import Backend, Capabilities
from penstock.ports.clock import Clock
from penstock.wire.commit import encode_event

EVENTS_PER_CHUNK: Final = 10_000
LATE_SECONDS_MAX: Final = 600.0
"""No event is stored later than this after its own time."""
BEFORE_THE_FIRST: Final = 1
"""A position that no event has: there is no commit before the first."""


class BackendSource:
    """The events of a backend, which whoever started it stops."""

    def __init__(self, backend: Backend, clock: Clock) -> None:
        self._backend = backend
        self._clock = clock

    @property
    def capabilities(self) -> Capabilities:
        return self._backend.capabilities

    async def floor(self) -> int:
        """The first commit that there is: whoever asks for what was before it is told."""
        events = self._backend.events(None, BEFORE_THE_FIRST, follow=False)
        try:
            await anext(events, None)
        except Gap as gap:
            return gap.floor
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()
        return 1

    async def bounds(self, after: int = 0) -> Bounds:
        head = commit_of(await self._backend.last_position())
        return Bounds(await self.floor(), head)

    def partitions(self, span: Span, count: int | None) -> list[Span]:
        # Each part is found by reading past those before it, so more than one is to be asked for.
        return split(span, count or 1)

    async def narrowed(self, span: Span, since: float | None, before: float | None) -> Span:
        """All of it: a commit's time is known from its events alone."""
        return span

    async def settled(self, head: int) -> int:
        """Up to where no commit can come any more below one that is there.

        Where events are ordered per job only, one that is stored late may stand below others
        that were read. So what is young is left for later.
        """
        if self.capabilities.events == "ordered":
            return head
        young = self._clock.now() - LATE_SECONDS_MAX
        async with aclosing(self.events(Span(await self.floor(), head))) as events:
            async for event in events:
                if event.at >= young:
                    return commit_of(event.position) - 1
        return head

    async def up_to_commits(self, span: Span, commits_max: int) -> int:
        """How far the span can be read within so many commits that have events."""
        if self.capabilities.events == "ordered":
            return min(span.last, span.first + commits_max - 1)
        return await within_events(self._commits(span), span, commits_max)

    async def _commits(self, span: Span) -> AsyncGenerator[Chunk]:
        """Each with its events counted as one."""
        async for chunk in self._chunks(span, events_max=1):
            yield replace(chunk, events=1)

    async def up_to_events(self, span: Span, events_max: int) -> int:
        return await within_events(self._chunks(span, events_max=1), span, events_max)

    async def events(self, span: Span) -> AsyncGenerator[Event]:
        since, end = position_of(span.first, 0) - 1, position_of(span.last + 1, 0)
        events = self._backend.events(None, since, follow=False)
        try:
            async for event in events:
                if event.position >= end:
                    return
                # Where order is per job, what may have been stored late is told again.
                if event.position > since:
                    yield event
        finally:
            if isinstance(events, AsyncGenerator):
                # Now, and not when it is collected: the backend is stopped before that.
                await events.aclose()

    async def chunks(self, span: Span, *, backwards: bool = False) -> AsyncGenerator[Chunk]:
        if backwards:
            for chunk in reversed([chunk async for chunk in self._chunks(span)]):
                yield chunk
            return
        async with aclosing(self._chunks(span)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _chunks(
        self, span: Span, events_max: int = EVENTS_PER_CHUNK
    ) -> AsyncGenerator[Chunk]:
        """Of about so many events each: a commit is never in two of them."""
        lines: list[bytes] = []
        last = span.first
        async with aclosing(self.events(span)) as events:
            async for event in events:
                commit = commit_of(event.position)
                if len(lines) >= events_max and commit != last:
                    yield self._chunk(lines, last)
                    lines = []
                # What a readable document holds may span several lines.
                lines.append(msgspec.json.format(encode_event(event), indent=-1))
                last = commit
        if lines:
            yield self._chunk(lines, last)

    def _chunk(self, lines: list[bytes], last: int) -> Chunk:
        return Chunk(self.capabilities.backend, b"\n".join(lines), len(lines), last)
