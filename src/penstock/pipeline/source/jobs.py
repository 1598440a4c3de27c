"""The table `jobs` of a queue: its state as of a commit, and who had left by then.

Of a log: the newest checkpoint up to that commit with the commits after it folded in, then the log
once from its end to its beginning, for jobs that ended and are in that state no more. The first
ending that is met is a life's last. Of other backends: each job is folded from its own events.
Jobs that an import has brought and that are not admitted yet are read from its objects, one after
the other: only the places of their rows are in the state.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing

from msgspec import Struct
from pyspark.sql.types import StructType

from penstock.engines.ledger.imports.objects import ImportObjects
from penstock.engines.ledger.views import Listing, unadmitted_chunks
from penstock.errors import InvalidOption
from penstock.kernel.events import Admitted, Enqueued, JobFact, commit_of
from penstock.kernel.job import Job
from penstock.kernel.transitions import apply, born
from penstock.pipeline.source.chunks import Chunk, Span
from penstock.pipeline.source.columns import Array, Row
from penstock.pipeline.source.kept import BackendSource
from penstock.pipeline.source.log import LogSource
from penstock.pipeline.source.loops import drain
from penstock.pipeline.source.opening import opened, opened_store
from penstock.pipeline.source.options import ReadOptions
from penstock.pipeline.source.planning import until_of
from penstock.pipeline.source.reading import batches, maker_of
from penstock.pipeline.source.tables import jobs_builder
from penstock.runtime.services import Services
from penstock.wire.commit import decode_event
from penstock.wire.snapshot import all_jobs, canonical


def read_jobs(options: ReadOptions, schema: StructType, span: Span) -> Iterator[Array]:
    listing = asyncio.run(_listing(options, span))
    lives = {job.life for job in listing.jobs}
    live = jobs_builder(schema)
    yield from batches(live, iter([_asked_for(options, listing.jobs)]))
    waiting = drain(_unadmitted(options, span, listing))
    yield from batches(live, (_asked_for(options, jobs) for jobs in waiting))
    del listing
    builder, endings = maker_of(options, schema)
    chunks = drain(_backwards(options, span))
    yield from batches(builder, (_last_endings(endings(chunk), lives) for chunk in chunks))


async def _listing(options: ReadOptions, span: Span) -> Listing:
    """Jobs as of the end of the span, in the order in which their lives began."""
    async with opened(options.address) as source:
        if isinstance(source, LogSource):
            state = await source.state_as_of(span.last)
            return Listing(canonical(all_jobs(state)), unadmitted_chunks(state.imports.segments()))
        if span.first > 1:
            rule = f"events before commit {span.first} were vacuumed, and jobs are folded from them"
            raise InvalidOption("table", options.table, f"{rule}; read events or attempts")
        return Listing(await _folded(source, Moment(span.last, until_of(options))), [])


class Moment(Struct, frozen=True):
    """What was there: everything up to a commit and, where a time is given, before that."""

    commit: int
    until: float | None

    def has(self, position: int, at: float) -> bool:
        return commit_of(position) <= self.commit and (self.until is None or at < self.until)


async def _folded(source: BackendSource, moment: Moment) -> list[Job]:
    """Jobs from their events. Those that an import had brought and that were admitted later have
    waited then."""
    jobs: dict[int, Job] = {}
    bounds = await source.bounds()
    async with aclosing(source.chunks(Span(bounds.floor, bounds.head))) as chunks:
        async for chunk in chunks:
            for event in map(decode_event, chunk.lines.splitlines()):
                if moment.has(event.position, event.at):
                    if isinstance(event, Enqueued):
                        jobs[event.life] = born(event)
                    elif isinstance(event, JobFact):
                        jobs[event.life] = apply(jobs[event.life], event)
                elif isinstance(event, Admitted) and moment.has(event.source, event.enqueued_at):
                    jobs[event.life] = born(event)
    return [jobs[life] for life in sorted(jobs)]


async def _unadmitted(
    options: ReadOptions, span: Span, listing: Listing
) -> AsyncGenerator[list[Job]]:
    """Jobs of imports that wait to be admitted, a part of them at a time."""
    services = Services()
    async with opened(options.address) as source:
        if isinstance(source, BackendSource):
            # It may not tell of the import any more, but has what of it waits still.
            moment = Moment(span.last, until_of(options))
            asked = options.tenant or options.address.options.tenant
            tenants = {job.tenant for job in listing.jobs} | {asked}
            async with aclosing(source.unadmitted(tenants)) as parts:
                async for jobs in parts:
                    yield [job for job in jobs if moment.has(job.source, job.enqueued_at)]
            return
        async with opened_store(options.address, services) as store:
            objects = ImportObjects(store, services)
            for chunk in listing.unadmitted:
                yield list(chunk.jobs(await objects.rows(chunk.place)))


async def _backwards(options: ReadOptions, span: Span) -> AsyncGenerator[Chunk]:
    async with opened(options.address) as source:
        if isinstance(source, LogSource):
            async with aclosing(source.chunks(span, backwards=True)) as chunks:
                async for chunk in chunks:
                    yield chunk


def _last_endings(endings: Sequence[Row], lives: set[int]) -> list[Row]:
    """Endings of lives that were not met yet; from now on they were."""
    found: list[Row] = []
    for row in reversed(endings):
        if row.life not in lives:
            lives.add(row.life)
            found.append(row)
    return found


def _asked_for(options: ReadOptions, jobs: list[Job]) -> list[Job]:
    return [
        job
        for job in jobs
        if options.tenant in (None, job.tenant) and options.queue in (None, job.queue)
    ]
