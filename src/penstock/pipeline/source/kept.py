"""Reading a queue whose events are not commits of their own: its backend is asked for them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from msgspec.structs import replace

from penstock.engines.records.tasks.positions import earlier
from penstock.errors import Gap, StoredLate
from penstock.kernel.events import Event, commit_of, position_of
from penstock.pipeline.source.chunks import Bounds, Chunk, Span, chunk_of
from penstock.pipeline.source.packing import split
from penstock.pipeline.source.searching import within_events
from penstock.ports.backend import Backend, Capabilities

EVENTS_PER_CHUNK: Final = 10_000
LATE_SECONDS_MAX: Final = 600.0
"""How long after its own time an event may be stored without a stream being told of it."""
BEFORE_THE_FIRST: Final = 1
"""A position that no event has: there is no commit before the first."""


class BackendSource:
    """The events of a backend, which whoever started it stops."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @property
    def capabilities(self) -> Capabilities:
        return self._backend.capabilities

    @property
    def is_ordered(self) -> bool:
        """Whether all events are in one order, and not only those of each job."""
        return self.capabilities.events == "ordered"

    async def floor(self) -> int:
        """The first commit that there is: whoever asks for what was before it is told."""
        try:
            async with aclosing(self._told(BEFORE_THE_FIRST)) as events:
                await anext(events, None)
        except Gap as gap:
            return gap.floor
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
        """Up to where a stream may go that is never to come back.

        Where events are ordered per job only, one that is stored late may stand below others
        that were read. So what is young is left for later; `require_none_late` sees to the rest.
        """
        if self.is_ordered:
            return head
        return commit_of(earlier(position_of(head, 0), LATE_SECONDS_MAX))

    async def trimmed(self, span: Span) -> Span:
        """Up to the last commit of the span that has events."""
        last = span.first - 1
        async with aclosing(self.events(span)) as events:
            async for event in events:
                last = commit_of(event.position)
        return Span(span.first, last)

    async def require_none_late(self, taken: int, looked: int) -> None:
        """Raises `StoredLate` if anything up to the commit `taken` was stored after the newest
        commit was `looked`."""
        # The backend tells again what may have been stored since.
        async with aclosing(self._told(position_of(looked + 1, 0) - 1)) as events:
            async for event in events:
                if commit_of(event.position) <= taken:
                    id = getattr(event, "id", None)
                    raise StoredLate(event.tenant, id, event.position)

    async def up_to_commits(self, span: Span, commits_max: int) -> int:
        """How far the span can be read within so many commits that have events."""
        if self.is_ordered:
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
        async with aclosing(self._told(since)) as events:
            async for event in events:
                if event.position >= end:
                    return
                # Where order is per job, what may have been stored late is told again.
                if event.position > since:
                    yield event

    async def _told(self, since: int) -> AsyncGenerator[Event]:
        events = self._backend.events(None, since, follow=False)
        try:
            async for event in events:
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
        pending: list[Event] = []
        async with aclosing(self.events(span)) as events:
            async for event in events:
                is_next = pending and commit_of(event.position) != commit_of(pending[-1].position)
                if len(pending) >= events_max and is_next:
                    yield chunk_of(self.capabilities.backend, pending)
                    pending = []
                pending.append(event)
        if pending:
            yield chunk_of(self.capabilities.backend, pending)
