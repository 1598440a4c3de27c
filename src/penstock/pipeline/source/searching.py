"""Finding one's way in commits that know their time and how many events they have."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from penstock.pipeline.source.chunks import Chunk, Span


async def first_at(time: float, span: Span, time_of: Callable[[int], Awaitable[float]]) -> int:
    """The first commit of a span at that time or later; one after the span if there is none."""
    low, high = span.first, span.last + 1
    while low < high:
        middle = (low + high) // 2
        if await time_of(middle) < time:
            low = middle + 1
        else:
            high = middle
    return low


async def within_events(chunks: AsyncGenerator[Chunk], span: Span, events_max: int) -> int:
    """How far the span can be read within so many events; one commit at least."""
    events, last = 0, None
    async with aclosing(chunks):
        async for chunk in chunks:
            events += chunk.events
            if events > events_max:
                return chunk.last if last is None else last
            last = chunk.last
    return span.last
