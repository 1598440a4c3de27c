"""Reading a queue whose events are not objects of their own: its backend is asked for them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Final

import msgspec

from penstock.errors import Gap
from penstock.kernel.events import Event, commit_of, position_of
from penstock.kernel.job import Job, State
from penstock.pipeline.source.chunks import Bounds, Chunk, Span
from penstock.pipeline.source.packing import split
from penstock.ports.backend import Backend, Filter
from penstock.wire.commit import encode_event

EVENTS_PER_CHUNK: Final = 10_000
JOBS_PER_PART: Final = 1_000
BEFORE_THE_FIRST: Final = 1
"""A position that no event has: there is no commit before the first."""


class BackendSource:
    """The events of a backend, which whoever started it stops."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @property
    def name(self) -> str:
        return self._backend.capabilities.backend

    async def bounds(self, after: int = 0) -> Bounds:
        head = commit_of(await self._backend.last_position())
        return Bounds(await self._floor(), head)

    def partitions(self, span: Span, count: int | None) -> list[Span]:
        # Each part is found by reading past those before it, so more than one is to be asked for.
        return split(span, count or 1)

    async def narrowed(self, span: Span, since: float | None, before: float | None) -> Span:
        """All of it: a commit's time is known from its events alone."""
        return span

    async def up_to_events(self, span: Span, events_max: int) -> int:
        """How far the span can be read within so many events; one commit at least."""
        count, last = 0, span.first
        async with aclosing(self.events(span)) as events:
            async for event in events:
                count += 1
                if count > events_max:
                    return max(span.first, min(last, commit_of(event.position) - 1))
                last = commit_of(event.position)
        return span.last

    async def events(self, span: Span) -> AsyncGenerator[Event]:
        since, end = position_of(span.first, 0) - 1, position_of(span.last + 1, 0)
        events = self._backend.events(None, since, follow=False)
        try:
            async for event in events:
                if event.position >= end:
                    return
                yield event
        finally:
            if isinstance(events, AsyncGenerator):
                # Now, and not when it is collected: the backend is stopped before that.
                await events.aclose()

    async def unadmitted(self, tenants: Iterable[str]) -> AsyncGenerator[list[Job]]:
        """The jobs of imports that wait to be admitted as of now, a part of them at a time."""
        part: list[Job] = []
        for tenant in sorted(tenants):
            async for job in self._backend.jobs(tenant, Filter(state=State.PENDING)):
                if job.source == job.life:  # its life in the log has not begun
                    part.append(job)
                if len(part) == JOBS_PER_PART:
                    yield part
                    part = []
        yield part

    async def chunks(self, span: Span) -> AsyncGenerator[Chunk]:
        lines: list[bytes] = []
        async with aclosing(self.events(span)) as events:
            async for event in events:
                # What a readable document holds may span several lines.
                lines.append(msgspec.json.format(encode_event(event), indent=-1))
                if len(lines) == EVENTS_PER_CHUNK:
                    yield self._chunk(lines)
                    lines = []
        if lines:
            yield self._chunk(lines)

    async def _floor(self) -> int:
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

    def _chunk(self, lines: list[bytes]) -> Chunk:
        return Chunk(self.name, b"\n".join(lines), len(lines))
