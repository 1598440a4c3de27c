"""A list of jobs out of the state in memory, a page at a time.

Between its pages a listing holds no jobs, only how far it is: the last life that it has looked at,
and the last one that had begun when it did. So it holds nobody up and is as small for a million
jobs as for one. What waits in imports comes behind the jobs, chunk by chunk. Where the chunks lie
is noted at the beginning: a row that was admitted since has a life too new for the first part, and
comes with its chunk, as the job that it has become.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, takewhile
from operator import itemgetter
from typing import Final

from msgspec import Struct

from penstock.engines.listing import passing
from penstock.kernel.job import TERMINAL, Job, State
from penstock.kernel.leases import Leases
from penstock.kernel.manifest import ChunkPlace, Row
from penstock.kernel.order import Ranking
from penstock.kernel.segments import Head, Segment, Waiting, id_of
from penstock.kernel.settings import Settings
from penstock.kernel.state import QueueState
from penstock.kernel.tenancy import Tenancy
from penstock.ports import listing as pages
from penstock.ports.backend import Filter

_last: Final = itemgetter(-1)


class UnadmittedChunk(Struct, frozen=True):
    """Rows of an import that waited when somebody looked."""

    segment: Segment
    place: ChunkPlace
    reached: int
    ahead: frozenset[int]

    def jobs(self, rows: Sequence[Row], settings: Settings) -> Iterator[Job]:
        """All of them, as they were then."""
        for number in self.numbers():
            yield Waiting(self.segment, number).job(rows[number - self.place.first], settings)

    def numbers(self) -> Iterator[int]:
        first, end = max(self.reached, self.place.first), self.place.first + self.place.rows
        return (number for number in range(first, end) if number not in self.ahead)


class Page(Struct, frozen=True):
    """What one look has found. It changes nothing, since a look may be taken again."""

    jobs: list[Job]
    reached: int | None
    """The life up to which it looked; None: that was all."""
    until: int
    chunks: list[UnadmittedChunk]


class Listing:
    """One that is under way."""

    def __init__(self, tenant: str, filter: Filter, after: str | None, limit: int | None) -> None:
        place = None if after is None else pages.place_in(after)
        self._tenant = tenant
        self._filter = filter
        self._left = sys.maxsize if limit is None else limit
        self._first_row = (0, 0) if place is None or place.row is None else (place.life, place.row)
        self._reached: int | None = 0 if place is None else place.life
        self._until: int | None = None
        self._chunks: list[UnadmittedChunk] = []

    @property
    def has_more(self) -> bool:
        """Jobs, that is, and not rows."""
        return self._reached is not None and self._left > 0

    @property
    def chunks(self) -> Iterator[UnadmittedChunk]:
        """Those that may have rows to be listed, for as long as any are wanted."""
        return takewhile(lambda _: self._left > 0, self._chunks)

    def look(self, state: QueueState, at: float) -> Page:
        """The next page of jobs. The first one is to be looked up in a state that is fresh."""
        tenancy, until, chunks = state.tenants.get(self._tenant), self._until, self._chunks
        if until is None:
            until, chunks = 0 if tenancy is None else tenancy.lives.last, self._unadmitted(state)
        if tenancy is None or self._reached is None or self._first_row != (0, 0):
            return Page([], None, until, chunks)
        few = _few(state, tenancy, self._filter)
        if few is not None:
            span = range(self._reached + 1, until + 1)
            found = sorted((job for job in few if job.life in span), key=lambda job: job.life)
            return Page(passing(state, self._filter, found, at), None, until, chunks)
        is_narrow = self._filter != Filter()
        count = pages.LOOKED_AT_MAX if is_narrow else min(self._left, pages.LOOKED_AT_MAX)
        jobs, reached = tenancy.lives.after(self._reached, until, count)
        return Page(passing(state, self._filter, jobs, at), reached, until, chunks)

    def take(self, page: Page) -> list[Job]:
        """Its jobs; the listing goes on behind them."""
        self._reached, self._until, self._chunks = page.reached, page.until, page.chunks
        return self._wanted(page.jobs)

    def rows_of(self, chunk: UnadmittedChunk) -> Iterator[list[int]]:
        """The numbers of those that are to be listed, some at a time."""
        position = chunk.segment.source.position
        numbers = [one for one in chunk.numbers() if (position, one) > self._first_row]
        for first in range(0, len(numbers), pages.LOOKED_AT_MAX):
            if self._left > 0:
                yield numbers[first : first + pages.LOOKED_AT_MAX]

    def take_rows(self, jobs: list[Job]) -> list[Job]:
        return self._wanted([job for job in jobs if self._filter.matches(job)])

    def _wanted(self, jobs: list[Job]) -> list[Job]:
        wanted = jobs[: self._left]
        self._left -= len(wanted)
        return wanted

    def _unadmitted(self, state: QueueState) -> list[UnadmittedChunk]:
        filter = self._filter
        if filter.archived or filter.state not in (None, State.PENDING):
            return []
        segments = (
            segment
            for segment in state.imports.segments(self._tenant)
            if filter.queue in (None, segment.record.queue)
            and filter.type in (None, segment.record.type)
        )
        return unadmitted_chunks(segments)


def _few(state: QueueState, tenancy: Tenancy, filter: Filter) -> list[Job] | None:
    """The jobs of a state out of the index that finds them, unless they are many or of any state:
    so a few of them are found behind a million others."""
    indexes: list[Iterable[Job | Head]] = []
    count = 0
    for index in _indexes(state, tenancy, filter):
        count += len(index)
        if count > pages.LOOKED_AT_MAX:
            return None
        indexes.append(index if isinstance(index, Leases) else map(_last, index.unordered()))
    if not indexes and filter.state is not State.PENDING:
        return None
    return [
        job
        for job in chain.from_iterable(indexes)
        if isinstance(job, Job) and job.tenant == tenancy.name
    ]


def _indexes(state: QueueState, tenancy: Tenancy, filter: Filter) -> Iterator[Leases | Ranking]:
    """Where the jobs of a state are, some others among them; none if any state will do."""
    if filter.archived:
        yield state.retention.archived
    elif filter.state is State.RUNNING:
        yield state.leases
    elif filter.state is State.COMPLETED:
        yield state.retention.completed
    elif filter.state in TERMINAL:
        yield state.retention.dead_letters
    elif filter.state is State.PENDING:
        yield state.pending.scheduled
        for lane in tenancy.lanes:
            queue, type, _ = lane.name
            if filter.queue in (None, queue) and filter.type in (None, type):
                yield lane


def jobs_of_rows(
    chunk: UnadmittedChunk,
    rows: Sequence[Row],
    numbers: Iterable[int],
    state: QueueState,
    at: float,
) -> list[Job]:
    """What has become of rows that waited when the listing began."""
    jobs: list[Job] = []
    source, first = chunk.segment.source, chunk.place.first
    for number in numbers:
        id = id_of(source.run, number)
        waiting = state.unadmitted(source.tenant, id)
        if waiting is not None:
            jobs.append(waiting.job(rows[number - first], state.settings))
            continue
        job = state.look(source.tenant, id, at)
        if job is not None and (job.source, job.row) == (source.position, number):
            jobs.append(job)
    return jobs


def unadmitted_chunks(segments: Iterable[Segment]) -> list[UnadmittedChunk]:
    return [
        UnadmittedChunk(segment, place, segment.reached, frozenset(segment.ahead))
        for segment in segments
        for _, place, _ in segment.waiting()
    ]
