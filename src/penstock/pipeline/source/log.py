"""Reading layout `log` without opening the queue: nothing is written, no state is built.

A listing tells which commits there are and what they weigh. It is a hint: each object proves
itself by its digests, and what was read counts only if the floor, read afterwards, is not above
it. So a reader that vacuum has overtaken is told of the gap, and never skips.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from penstock.engines.bad_reads import again_if_bad
from penstock.engines.ledger.log.floor import FIRST_SLOT, read_floor
from penstock.engines.ledger.log.startup import checkpoints, newest_checkpoint
from penstock.engines.ledger.names import LOG, commit_in, log_key
from penstock.errors import Corrupt, Gap, InvalidOption, ObjectNotFound
from penstock.kernel.events import position_of
from penstock.kernel.state import QueueState
from penstock.pipeline.source.chunks import Bounds, Chunk, Span
from penstock.pipeline.source.packing import packed
from penstock.pipeline.source.searching import first_at, within_events
from penstock.ports.store import ObjectStore
from penstock.wire.commit import decode_events, decode_lines

READS_AT_ONCE_MAX: Final = 32
BYTES_AT_ONCE: Final = 8 * 1024 * 1024
"""How much is read at once, about: enough to hide a store's distance, little enough to hold."""


class LogSource:
    """The log of one queue, in a store that whoever made it closes."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._sizes: dict[int, int] = {}

    async def floor(self) -> int:
        return await read_floor(self._store)

    async def bounds(self, after: int = 0) -> Bounds:
        """As of now; what is known to be there up to `after` is not listed again."""
        floor = await self.floor()
        first = max(floor, after + 1)
        self._sizes = {}
        async for entry in self._store.list(LOG, start_after=log_key(first - 1)):
            commit = commit_in(entry.key)
            if commit is not None:
                self._sizes[commit] = entry.size_bytes
        return Bounds(floor, max(self._sizes, default=first - 1))

    def partitions(self, span: Span, count: int | None) -> list[Span]:
        """The span in parts of about the same weight; after `bounds`."""
        return packed(span, self._sizes, count)

    async def narrowed(self, span: Span, since: float | None, before: float | None) -> Span:
        """The commits of the span within a time; their times never go back, so few are read."""
        first, last = span.first, span.last
        if since is not None:
            first = await first_at(since, span, self._time_of)
        if before is not None:
            last = await first_at(before, span, self._time_of) - 1
        return Span(first, last)

    async def settled(self, head: int) -> int:
        """Up to where no commit can come any more below one that is there: all of them."""
        return head

    async def up_to_commits(self, span: Span, commits_max: int) -> int:
        return min(span.last, span.first + commits_max - 1)

    async def up_to_events(self, span: Span, events_max: int) -> int:
        return await within_events(self.chunks(span), span, events_max)

    async def state_as_of(self, commit: int) -> QueueState:
        """Everything that the queue knew then: a checkpoint, and the log after it folded in."""
        floor = await read_floor(self._store)
        loaded = await newest_checkpoint(self._store, floor, commit)
        if loaded is None and floor > FIRST_SLOT:
            oldest = min(number for number, _ in await checkpoints(self._store))
            rule = f"the oldest state that can still be told is that of commit {oldest}"
            raise InvalidOption("as_of", commit, rule)
        state, reached = (loaded.state, loaded.head.commit) if loaded else (QueueState(), 0)
        async for chunk in self.chunks(Span(max(reached + 1, floor), commit)):
            assert chunk.header is not None
            state.fold(chunk.header.at, decode_events(chunk.name, chunk.header, chunk.lines))
        return state

    async def chunks(self, span: Span, *, backwards: bool = False) -> AsyncGenerator[Chunk]:
        """One per commit, in order or, `backwards`, from the newest on."""
        commits = range(span.first, span.last + 1)
        if backwards:
            commits = commits[::-1]
        count = 1
        while commits:
            window, commits = commits[:count], commits[count:]
            chunks = await asyncio.gather(*(self.read(commit) for commit in window))
            # Afterwards: in a vacated slot there may be what a late writer left behind.
            await self._require_above_floor(min(window))
            for chunk in chunks:
                yield chunk
            count = _count_after(chunks)

    async def read(self, commit: int) -> Chunk:
        key = log_key(commit)

        async def read() -> Chunk:
            try:
                data = (await self._store.get(key)).data
            except ObjectNotFound:
                await self._require_above_floor(commit)
                raise Corrupt(key, "it is gone, although later commits build on it") from None
            header, lines = decode_lines(key, data)
            return Chunk(key, lines, header.events, commit, header, len(data))

        return await again_if_bad(read)

    async def _time_of(self, commit: int) -> float:
        header = (await self.read(commit)).header
        assert header is not None
        return header.at

    async def _require_above_floor(self, commit: int) -> None:
        floor = await read_floor(self._store)
        if commit < floor:
            raise Gap(position_of(commit, 0), floor)


def _count_after(chunks: Sequence[Chunk]) -> int:
    """How many to read next: as these were large or small."""
    weight = sum(chunk.size_bytes or 0 for chunk in chunks)
    fitting = len(chunks) * BYTES_AT_ONCE // max(weight, 1)
    return max(1, min(fitting, 2 * len(chunks), READS_AT_ONCE_MAX))
